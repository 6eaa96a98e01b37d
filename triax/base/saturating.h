// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace triax {

// Arithmetic for figures of messages over sizes that nobody has checked yet: a
// result beyond int64_t is held at its end, where C++ says nothing of it.

constexpr int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return !__builtin_add_overflow(a, b, &sum) ? sum
         : b < 0 ? std::numeric_limits<int64_t>::min()
                 : std::numeric_limits<int64_t>::max();
}

constexpr int64_t saturating_subtract(int64_t a, int64_t b) {
  int64_t difference = 0;
  return !__builtin_sub_overflow(a, b, &difference) ? difference
         : b > 0 ? std::numeric_limits<int64_t>::min()
                 : std::numeric_limits<int64_t>::max();
}

constexpr int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) ? product
         : (a < 0) != (b < 0) ? std::numeric_limits<int64_t>::min()
                              : std::numeric_limits<int64_t>::max();
}

constexpr int64_t saturating_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    product = saturating_multiply(product, factor);
  }
  return product;
}

/// The smallest multiple of `of` (above 0) that is not below `number`.
constexpr int64_t saturating_round_up(int64_t number, int64_t of) {
  const int64_t rest = number % of;
  return rest == 0  ? number
         : rest < 0 ? number - rest
                    : saturating_add(number - rest, of);
}

}  // namespace triax
