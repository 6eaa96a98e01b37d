// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace triax {

/// `length` elements from `start` along one dim.
struct Range {
  int64_t start = 0;
  int64_t length = 0;

  bool operator==(const Range&) const = default;
};

/// The elements that two ranges share; of length 0 where there are none.
constexpr Range intersection(const Range& a, const Range& b) {
  const int64_t start = std::max(a.start, b.start);
  const int64_t end = std::min(a.start + a.length, b.start + b.length);
  return {start, std::max<int64_t>(0, end - start)};
}

}  // namespace triax
