// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace triax {

/// A sum of fp64 numbers that does not round: a fixed-point number wide enough
/// for every finite double. Whoever adds which terms, in whatever order, the
/// sum is the same, and is rounded once, by value().
///
/// It is a list of words: the sum over ranks of each word is the sum over ranks
/// of the number, so an all_reduce of words() adds sums up exactly.
class ExactSum {
 public:
  void add(double value);

  /// The nearest double, ties to even (below 2^-1022, to within a unit). NaN
  /// once NaN or both infinities were added, infinite after one of them.
  double value() const;

  /// For a sum over up to 2^30 ranks.
  std::span<int64_t> words();

 private:
  // Word k counts units of 2^(32 k - 1074), of either sign.
  static constexpr int kNumLimbs = 68;
  // Then counts of what is not finite.
  static constexpr int kNan = kNumLimbs;
  static constexpr int kPositive = kNumLimbs + 1;
  static constexpr int kNegative = kNumLimbs + 2;
  using Words = std::array<int64_t, kNumLimbs + 3>;

  static void carry(Words& words);

  Words words_{};
  int64_t num_adds_ = 0;  // since the last carry
};

}  // namespace triax
