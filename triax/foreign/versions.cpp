// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/versions.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <vector>

#include "triax/base/error.h"
#include "triax/foreign/system.h"

namespace triax {
namespace {

// DeepSpeed's releases 0.MINOR.FIRST to 0.MINOR.LAST, as PyPI has them.
struct Series {
  int minor, first, last;
};
constexpr Series kDeepSpeed[] = {{12, 6, 6},
                                 {13, 0, 5},
                                 {14, 0, 5},
                                 {15, 0, 4},
                                 {16, 0, 9},
                                 {17, 0, 6},
                                 {18, 0, 9},
                                 {19, 0, 8}};

// The numbers of "0.14.5"; nullopt: it is written otherwise.
std::optional<std::vector<int>> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  while (true) {
    int number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    const auto length = static_cast<size_t>(end - text.data());
    if (error != std::errc() || text.front() == '-' || numbers.size() == 3) {
      return std::nullopt;
    }
    numbers.push_back(number);
    if (length == text.size()) {
      return numbers;
    }
    if (text[length] != '.') {
      return std::nullopt;
    }
    text.remove_prefix(length + 1);
  }
}

std::string releases() {
  std::vector<std::string> parts;
  for (const Series& series : kDeepSpeed) {
    parts.push_back(series.first == series.last
                        ? fmt::format("0.{}.{}", series.minor, series.last)
                        : fmt::format("0.{}.{} to 0.{}.{}",
                                      series.minor,
                                      series.first,
                                      series.minor,
                                      series.last));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string resolve_deepspeed(std::string_view version) {
  const std::optional<std::vector<int>> numbers = numbers_of(version);
  if (numbers && numbers->size() >= 2 && (*numbers)[0] == 0) {
    for (const Series& series : kDeepSpeed) {
      const int patch = numbers->size() == 3 ? (*numbers)[2] : series.last;
      if ((*numbers)[1] == series.minor && patch >= series.first &&
          patch <= series.last) {
        return fmt::format("0.{}.{}", series.minor, patch);
      }
    }
  }
  throw Error("deepspeed@",
              version,
              " is none of the releases that triax knows the keys of: ",
              releases(),
              " (0.14 means the last of them)");
}

}  // namespace

std::string resolve_version(System system, std::string_view version) {
  const SystemEntry* entry = find_system(system);
  if (entry == nullptr) {
    throw Error("triax@", version, ": triax reads its own version alone");
  }
  const std::string_view own = entry->keys().version();
  if (system == System::kDeepSpeed) {
    const std::string resolved = resolve_deepspeed(version);
    return resolved == own ? "" : resolved;
  }
  if (!entry->knows_version(version)) {
    throw Error(entry->name,
                "@",
                version,
                ": no such version is known; valid are ",
                entry->versions);
  }
  // The last release on PyPI, whose configs have keys of their own.
  const bool is_release = system == System::kNanotron && version == "0.4";
  return is_release ? "0.4" : "";
}

}  // namespace triax
