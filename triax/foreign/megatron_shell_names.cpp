// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "triax/config/nearest.h"
#include "triax/foreign/megatron_shell_words.h"

namespace triax {
namespace {

constexpr size_t kMostBytes = 64;   // of a name that is compared
constexpr size_t kLeastBytes = 4;   // shorter ones are near to anything
constexpr size_t kMostNames = 200;  // of each kind

bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// How a name stands in a script.
struct Uses {
  size_t read_offset = std::string_view::npos;  // plainly: $NAME, ${NAME[@]}
  size_t set_offset = std::string_view::npos;   // NAME=, NAME+=
  bool is_elsewhere = false;                    // in any other way

  bool is_only_read() const {
    return read_offset != std::string_view::npos &&
           set_offset == std::string_view::npos && !is_elsewhere;
  }
  bool is_only_set() const {
    return set_offset != std::string_view::npos &&
           read_offset == std::string_view::npos && !is_elsewhere;
  }
};

class NameScan {
 public:
  explicit NameScan(std::string_view text) : text_(text) {}

  void scan() {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const size_t first = std::min(text_.find_first_not_of(" \t", at_), end);
      if (first == end || text_[first] == '#') {
        at_ = end + 1;
        continue;
      }
      const std::string_view rest = text_.substr(first, end - first);
      reads_others_ = reads_others_ || rest.starts_with("source ") ||
                      rest.starts_with(". ");
      exports_ = rest.starts_with("export ") || rest.starts_with("declare ") ||
                 rest.starts_with("typeset ");
      at_ = first;
      scan_line(end);
      at_ = end + 1;
    }
  }

  bool reads_others() const { return reads_others_; }
  const std::map<std::string_view, Uses>& names() const { return names_; }

 private:
  void scan_line(size_t end) {
    char quote = '\0';
    while (at_ < end) {
      const char c = text_[at_];
      if (quote == '\0' && c == '#' && at_ > 0 &&
          (text_[at_ - 1] == ' ' || text_[at_ - 1] == '\t')) {
        return;  // a remark
      }
      if (quote == '\0' ? c == '"' || c == '\'' : c == quote) {
        quote = quote == '\0' ? c : '\0';
      }
      if (!is_shell_name_start(text_[at_])) {
        // "2x": no name.
        do {
          ++at_;
        } while (at_ < end && is_name_byte(text_[at_ - 1]) &&
                 is_name_byte(text_[at_]));
        continue;
      }
      const size_t begin = at_;
      while (at_ < end && is_name_byte(text_[at_])) {
        ++at_;
      }
      add(begin, text_.substr(begin, at_ - begin));
    }
  }

  void add(size_t begin, std::string_view name) {
    Uses& uses = names_[name];
    if (is_plain_reading(begin)) {
      uses.read_offset = std::min(uses.read_offset, begin - 1);
    } else if (is_assignment(begin)) {
      uses.set_offset = std::min(uses.set_offset, begin);
    } else {
      uses.is_elsewhere = true;
    }
  }

  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  // $NAME, ${NAME}, ${NAME[…]}.
  bool is_plain_reading(size_t begin) const {
    const bool is_braced = begin >= 2 && text_[begin - 1] == '{';
    const size_t dollar = begin - (is_braced ? 2 : 1);
    if (begin < 1 || text_[dollar] != '$' ||
        (dollar > 0 && text_[dollar - 1] == '\\')) {
      return false;
    }
    if (!is_braced) {
      return true;
    }
    size_t after = at_;
    if (byte(after) == '[') {
      after = text_.find(']', after);
      after = after == std::string_view::npos ? after : after + 1;
    }
    return byte(after) == '}';
  }

  // Where a command may begin, and exported to none.
  bool is_assignment(size_t begin) const {
    const bool begins =
        begin == 0 || std::string_view(" \t\n;&(").find(text_[begin - 1]) !=
                          std::string_view::npos;
    const bool sets = (byte(at_) == '=' && byte(at_ + 1) != '=') ||
                      (byte(at_) == '+' && byte(at_ + 1) == '=');
    return begins && sets && !exports_;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool exports_ = false;
  bool reads_others_ = false;
  std::map<std::string_view, Uses> names_;
};

// "STAGE1" is no slip of "STAGE2".
bool have_same_digits(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view name) {
    std::string found;
    std::copy_if(name.begin(),
                 name.end(),
                 std::back_inserter(found),
                 [](unsigned char c) { return std::isdigit(c) != 0; });
    return found;
  };
  return digits(a) == digits(b);
}

bool is_comparable(std::string_view name) {
  return name.size() >= kLeastBytes && name.size() <= kMostBytes;
}

}  // namespace

std::vector<MisspeltVariable> misspelt_variables(std::string_view text) {
  NameScan scan(text);
  scan.scan();
  std::vector<MisspeltVariable> found;
  if (scan.reads_others()) {
    return found;
  }
  std::vector<std::string_view> only_set;
  for (const auto& [name, uses] : scan.names()) {
    if (uses.is_only_set() && is_comparable(name) &&
        only_set.size() < kMostNames) {
      only_set.push_back(name);
    }
  }
  size_t num_compared = 0;
  for (const auto& [name, uses] : scan.names()) {
    if (!uses.is_only_read() || !is_comparable(name) ||
        ++num_compared > kMostNames) {
      continue;
    }
    const std::string near = nearest(name, only_set);
    if (!near.empty() && edit_distance(name, near) <= 2 &&
        have_same_digits(name, near)) {
      found.push_back({std::string(name),
                       near,
                       uses.read_offset,
                       scan.names().at(near).set_offset});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.offset < b.offset;
  });
  return found;
}

}  // namespace triax
