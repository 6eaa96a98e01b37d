// SPDX-License-Identifier: Apache-2.0
#include "triax/check/foreign_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace triax {
namespace {

constexpr std::string_view kAbsurd = "a number that no run has";

bool has_word(std::string_view path,
              std::initializer_list<std::string_view> of) {
  return std::any_of(of.begin(), of.end(), [path](std::string_view word) {
    return path.find(word) != std::string_view::npos;
  });
}

// By what the systems call their keys; the three spell them alike.
int64_t most_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string_view name =
      dot == std::string_view::npos ? path : path.substr(dot + 1);
  if (has_word(name, {"seed"})) {
    return std::numeric_limits<int64_t>::max();
  }
  if (has_word(name, {"bucket", "step", "iters", "samples", "tokens"})) {
    return kMostCount;
  }
  if (has_word(name, {"parallel", "degree", "micro"}) || name == "dp" ||
      name == "tp" || name == "pp") {
    return kMostRanksOfAxis;
  }
  return has_word(name,
                  {"layer",
                   "hidden",
                   "size",
                   "heads",
                   "groups",
                   "channels",
                   "vocab",
                   "experts",
                   "seq",
                   "length",
                   "position",
                   "batch",
                   "dim",
                   "top",
                   "stage",
                   "world",
                   "nodes",
                   "ranks",
                   "accumulation"})
             ? kMostSize
             : kMostCount;
}

class Bounder {
 public:
  void walk(ConfigTable& table, const std::string& prefix) {
    for (ConfigEntry& entry : table) {
      bound(entry.value, prefix + entry.key);
    }
  }

  std::vector<Problem> problems;

 private:
  void bound(ConfigValue& value, const std::string& path) {
    if (auto* table = std::get_if<ConfigTable>(&value.data)) {
      walk(*table, path + ".");
    } else if (auto* items = std::get_if<ConfigArray>(&value.data)) {
      for (size_t i = 0; i < items->size(); ++i) {
        bound((*items)[i], fmt::format("{}.{}", path, i));
      }
    } else if (is_beyond(value, most_of(path))) {
      take_out(value, path);
    }
  }

  static bool is_beyond(const ConfigValue& value, int64_t most) {
    if (const auto* whole = std::get_if<int64_t>(&value.data)) {
      return *whole > most || *whole < -most;
    }
    const auto* number = std::get_if<double>(&value.data);
    return number != nullptr && most < kMostCount &&
           std::abs(*number) > static_cast<double>(most);
  }

  void take_out(ConfigValue& value, const std::string& path) {
    problems.push_back({Severity::kError,
                        "out-of-range",
                        path,
                        value.position,
                        fmt::format("{} is beyond any run, and nothing is "
                                    "calculated with it",
                                    value_text(value)),
                        fmt::format("use at most {}", most_of(path)),
                        Effect::kFailsLater,
                        {}});
    value.data = ForeignValue{std::string(kAbsurd)};
  }
};

}  // namespace

std::optional<BoundedConfig> without_absurd_numbers(
    const ForeignConfig& config) {
  BoundedConfig bounded{config, {}};
  Bounder bounder;
  bounder.walk(bounded.config.table, "");
  if (bounder.problems.empty()) {
    return std::nullopt;
  }
  bounded.problems = std::move(bounder.problems);
  return bounded;
}

bool is_absurd_number(const ConfigValue& value) {
  const auto* unknown = std::get_if<ForeignValue>(&value.data);
  return unknown != nullptr && unknown->kind == kAbsurd;
}

}  // namespace triax
