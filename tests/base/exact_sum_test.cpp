// SPDX-License-Identifier: Apache-2.0
#include "triax/base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace triax {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) {
    sum.add(value);
  }
  return sum.value();
}

/// Of any exponent and sign.
std::vector<double> random_values(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  while (static_cast<int>(values.size()) < count) {
    const double value =
        std::ldexp(std::uniform_real_distribution(-1.0, 1.0)(random),
                   static_cast<int>(random() % 2000) - 1000);
    values.push_back(value);
  }
  return values;
}

TEST(ExactSum, OfOneNumberIsTheNumber) {
  for (const double value : {0.0,
                             1.0,
                             -3.5,
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::lowest(),
                             std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::denorm_min(),
                             0.1}) {
    EXPECT_EQ(sum_of({value}), value);
  }
  for (const double value : random_values(1000, 1)) {
    EXPECT_EQ(sum_of({value}), value);
  }
}

TEST(ExactSum, OfTwoNumbersIsTheirRoundedSum) {
  const std::vector<double> values = random_values(1000, 2);
  std::mt19937_64 random(3);
  for (const double a : values) {
    const double b = a * std::uniform_real_distribution(-4.0, 4.0)(random);
    EXPECT_EQ(sum_of({a, b}), a + b) << a << " + " << b;
  }
}

TEST(ExactSum, LosesNothingAndRoundsOnce) {
  EXPECT_EQ(sum_of({1e300, 1.0, -1e300}), 1.0);
  EXPECT_EQ(sum_of({1.0, 0x1p-53}), 1.0);  // a tie, to even
  EXPECT_EQ(sum_of({1.0, 0x1p-53, 0x1p-1000}), 1.0 + 0x1p-52);
  EXPECT_EQ(sum_of({-1.0, -0x1p-53, -0x1p-1074}), -1.0 - 0x1p-52);
  EXPECT_EQ(sum_of(std::vector<double>(10, 0.1)), 1.0);
}

TEST(ExactSum, DoesNotDependOnTheOrderOrTheParts) {
  std::vector<double> values = random_values(2000, 4);
  const double expected = sum_of(values);
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(sum_of(values), expected);
    std::vector<ExactSum> parts(7);
    for (size_t k = 0; k < values.size(); ++k) {
      parts[k % (1 + i % 7)].add(values[k]);
    }
    for (size_t part = 1; part < parts.size(); ++part) {
      const auto words = parts[part].words();
      std::transform(words.begin(),
                     words.end(),
                     parts[0].words().begin(),
                     parts[0].words().begin(),
                     std::plus<>());
    }
    EXPECT_EQ(parts[0].value(), expected);
  }
}

TEST(ExactSum, WhatIsNotFiniteStaysSo) {
  EXPECT_EQ(sum_of({1.0, kInfinity}), kInfinity);
  EXPECT_EQ(sum_of({-kInfinity, 1.0}), -kInfinity);
  EXPECT_TRUE(std::isnan(sum_of({kInfinity, -kInfinity})));
  EXPECT_TRUE(std::isnan(sum_of({std::nan(""), 1.0})));
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of({largest, largest}), kInfinity);
  EXPECT_EQ(sum_of({largest, largest, -largest}), largest);
}

}  // namespace
}  // namespace triax
