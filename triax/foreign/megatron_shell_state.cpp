// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_state.h"

namespace triax {
namespace {

constexpr size_t kMaxCopiedBytes = 64 << 20;

}  // namespace

ShellState::ShellState(const std::map<std::string, std::string>& given) {
  for (const auto& [name, text] : given) {
    variables_[name] = {false, {{{{text, 0}}}}};
  }
}

const ShellValue* ShellState::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellState::set(const std::string& name, std::optional<ShellValue> value) {
  const ShellValue* old = find(name);
  if (!changes_.empty()) {
    changes_.back()->try_emplace(
        name, old == nullptr ? std::nullopt : std::optional<ShellValue>(*old));
  }
  if (value) {
    variables_[name] = std::move(*value);
  } else {
    variables_.erase(name);
  }
}

bool ShellState::spend(size_t bytes, size_t offset) {
  copied_ += bytes;
  if (copied_ > kMaxCopiedBytes) {
    fail("its variables expand to more than 64 MB", offset);
    return false;
  }
  return true;
}

void ShellState::fail(const std::string& why, size_t offset) {
  if (error_.empty()) {
    error_ = why;
    error_offset_ = offset;
  }
}

ShellState::Changes ShellState::try_branch(const std::function<void()>& run) {
  Changes changes;
  changes_.push_back(&changes);
  run();
  changes_.pop_back();
  return take_back(changes);
}

// Undoes the changes and returns what they made.
ShellState::Changes ShellState::take_back(Changes& before) {
  Changes after;
  for (auto& [name, old] : before) {
    const ShellValue* now = find(name);
    after[name] =
        now == nullptr ? std::nullopt : std::optional<ShellValue>(*now);
    if (old) {
      spend(bytes_of(*old), 0);
      variables_[name] = std::move(*old);
    } else {
      variables_.erase(name);
    }
  }
  return after;
}

void ShellState::merge(const std::vector<Changes>& branches, bool is_certain) {
  std::map<std::string, int> names;
  for (const Changes& changes : branches) {
    for (const auto& [name, value] : changes) {
      ++names[name];
    }
  }
  for (const auto& [name, count] : names) {
    const ShellValue* old = find(name);
    std::vector<ShellValue> candidates;
    for (const Changes& changes : branches) {
      const auto found = changes.find(name);
      if (found != changes.end() && found->second) {
        candidates.push_back(*found->second);
      }
    }
    const bool keeps_old =
        !is_certain || static_cast<size_t>(count) < branches.size();
    if (keeps_old && old != nullptr) {
      candidates.push_back(*old);
    }
    if (!candidates.empty()) {
      const bool may_be_unset = keeps_old && old == nullptr;
      set(name, merged_value(name, candidates, may_be_unset));
    }
  }
}

}  // namespace triax
