// SPDX-License-Identifier: Apache-2.0
#include "triax/base/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace triax {
namespace {

constexpr uint64_t kLow = 0xffffffff;
constexpr int kMantissaBits = 52;
constexpr int kLeastExponent = -1074;  // of a subnormal's last bit
/// An add puts less than 2^33 into a word.
constexpr int64_t kMaxAdds = int64_t{1} << 28;

}  // namespace

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    ++words_[std::isnan(value) ? kNan : value > 0 ? kPositive : kNegative];
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> kMantissaBits & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << kMantissaBits) - 1);
  const uint64_t mantissa =
      exponent == 0 ? fraction : fraction | uint64_t{1} << kMantissaBits;
  const int position = exponent == 0 ? 0 : exponent - 1;
  const int word = position / 32;
  const int shift = position % 32;
  const uint64_t low = (mantissa & kLow) << shift;
  const uint64_t high = (mantissa >> 32) << shift;
  const int64_t sign = value < 0 ? -1 : 1;
  words_[word] += sign * static_cast<int64_t>(low & kLow);
  words_[word + 1] += sign * static_cast<int64_t>((low >> 32) + (high & kLow));
  words_[word + 2] += sign * static_cast<int64_t>(high >> 32);
  if (++num_adds_ == kMaxAdds) {
    carry(words_);
    num_adds_ = 0;
  }
}

void ExactSum::carry(Words& words) {
  for (int i = 0; i + 1 < kNumLimbs; ++i) {
    const int64_t over = words[i] >> 32;  // rounds down, for either sign
    words[i] -= over * (int64_t{1} << 32);
    words[i + 1] += over;
  }
}

std::span<int64_t> ExactSum::words() {
  carry(words_);
  num_adds_ = 0;
  return words_;
}

double ExactSum::value() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (words_[kNan] > 0 || (words_[kPositive] > 0 && words_[kNegative] > 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (words_[kPositive] > 0 || words_[kNegative] > 0) {
    return words_[kPositive] > 0 ? kInfinity : -kInfinity;
  }
  Words words = words_;
  carry(words);
  double sign = 1.0;
  if (words[kNumLimbs - 1] < 0) {
    sign = -1.0;
    for (int i = 0; i < kNumLimbs; ++i) {
      words[i] = -words[i];
    }
    carry(words);
  }
  int top = kNumLimbs - 1;
  while (top > 0 && words[top] == 0) {
    --top;
  }
  const auto limb = [&](int i) {
    return i < 0 ? uint64_t{0} : static_cast<uint64_t>(words[i]);
  };
  uint64_t leading = limb(top) << 32 | limb(top - 1);
  if (leading == 0) {
    return 0.0;
  }
  // The leading 64 bits; whatever is below decides a tie only.
  const int shift = std::countl_zero(leading);
  const uint64_t next = limb(top - 2) << shift;
  leading = leading << shift | next >> 32;
  bool has_rest = (next & kLow) != 0;
  for (int i = 0; i < top - 2; ++i) {
    has_rest |= words[i] != 0;
  }
  leading |= has_rest ? 1 : 0;
  return sign * std::ldexp(static_cast<double>(leading),
                           32 * (top - 1) + kLeastExponent - shift);
}

}  // namespace triax
