// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triax {

/// In rising order; none of a number below 1.
std::vector<int64_t> divisors(int64_t number);

/// "1, 2, 4 or 8".
std::string one_of(const std::vector<int64_t>& numbers);

/// The divisors as one_of() writes them; words for a number that has none or
/// is too large to list them.
std::string dividing(int64_t number);

}  // namespace triax
