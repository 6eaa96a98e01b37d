// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triax/config/problem.h"
#include "triax/foreign/foreign_config.h"

namespace triax {

/// Degrees, sizes and other counts that the rules multiply: below these,
/// products of a few of them stay within 64 bits.
constexpr int64_t kMostRanksOfAxis = int64_t{1} << 20;
constexpr int64_t kMostSize = int64_t{1} << 31;
constexpr int64_t kMostCount = int64_t{1} << 53;

struct BoundedConfig {
  ForeignConfig config;
  std::vector<Problem> problems;  // one out-of-range for each number
};

/// The config with numbers that no run has taken for unknown, so that no rule
/// calculates with them; nullopt: it has none.
std::optional<BoundedConfig> without_absurd_numbers(
    const ForeignConfig& config);

/// What stands where a number was taken out.
bool is_absurd_number(const ConfigValue& value);

}  // namespace triax
