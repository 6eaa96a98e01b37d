// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

namespace triax {

/// number / by (above 0), rounded up. Nothing overflows.
template <std::integral T>
constexpr T divide_up(T number, std::type_identity_t<T> by) {
  return number / by + (number % by > 0 ? 1 : 0);
}

/// The smallest multiple of `of` (above 0) that is not below `number`, which
/// T must be able to hold: saturating_round_up() is for unchecked numbers.
template <std::integral T>
constexpr T round_up(T number, std::type_identity_t<T> of) {
  return divide_up(number, of) * of;
}

}  // namespace triax
