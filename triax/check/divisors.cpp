// SPDX-License-Identifier: Apache-2.0
#include "triax/check/divisors.h"

#include <fmt/format.h>

namespace triax {
namespace {

constexpr int64_t kMaxListed = 1 << 20;

}  // namespace

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> small;
  std::vector<int64_t> large;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) {
      small.push_back(i);
      if (i * i != number) {
        large.push_back(number / i);
      }
    }
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::string one_of(const std::vector<int64_t>& numbers) {
  if (numbers.size() < 2) {
    return fmt::format("{}", fmt::join(numbers, ""));
  }
  return fmt::format("{} or {}",
                     fmt::join(numbers.begin(), numbers.end() - 1, ", "),
                     numbers.back());
}

std::string dividing(int64_t number) {
  return number > 0 && number <= kMaxListed ? one_of(divisors(number))
                                            : "one that divides it";
}

}  // namespace triax
