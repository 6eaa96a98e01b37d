// SPDX-License-Identifier: Apache-2.0
#include "triax/model/initial_values.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/support/tensors.h"

namespace triax {
namespace {

constexpr PhiloxKey kKey = {7, 8};

std::vector<double> draw(int64_t first, int64_t count) {
  std::vector<double> values(count);
  draw_normal(kKey, first, values.data(), count);
  return values;
}

TEST(DrawNormal, IsBoxMullerOfPhilox) {
  const auto values = draw(0, 20000);
  for (uint32_t pair = 0; pair < 10000; ++pair) {
    const PhiloxCounter bits = philox({pair, 0, 0, 0}, kKey);
    const auto unit = [](uint32_t low, uint32_t high) {
      return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
    };
    const double radius = std::sqrt(-2 * std::log1p(-unit(bits[0], bits[1])));
    const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
    EXPECT_NEAR(values[2 * pair], radius * std::cos(angle), 4e-15);
    EXPECT_NEAR(values[2 * pair + 1], radius * std::sin(angle), 4e-15);
  }
}

TEST(DrawNormal, HasTheMomentsOfANormal) {
  constexpr int kCount = 1000000;
  double moments[5] = {};
  for (const double value : draw(0, kCount)) {
    for (int power = 1; power <= 4; ++power) {
      moments[power] += std::pow(value, power) / kCount;
    }
  }
  EXPECT_NEAR(moments[1], 0.0, 5e-3);  // 5 standard errors
  EXPECT_NEAR(moments[2], 1.0, 8e-3);
  EXPECT_NEAR(moments[3], 0.0, 2e-2);
  EXPECT_NEAR(moments[4], 3.0, 5e-2);
}

TEST(DrawNormal, AnElementDoesNotDependOnWhereItsRangeBegins) {
  const auto all = draw(0, 40);
  for (int64_t first = 0; first < 10; ++first) {
    for (int64_t count = 0; count < 20; ++count) {
      const auto part = draw(first, count);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(part[i], all[first + i]);
      }
    }
  }
}

Piece whole_piece(int64_t rows, int64_t columns) {
  return {.logical_name = "a.weight",
          .logical_shape = {rows, columns},
          .logical_range = {{0, rows}, {0, columns}},
          .stored_start = {0, 0},
          .transposed = false,
          .num_replicas = 1,
          .replica = 0,
          .initial = {.normal_std = 0.5}};
}

at::Tensor draw_stored(at::IntArrayRef shape,
                       const Piece& piece,
                       at::ScalarType dtype = at::kDouble) {
  const at::Tensor stored = at::zeros(shape, dtype);
  draw_piece(stored, piece, /*seed=*/3);
  return stored;
}

TEST(DrawPiece, ARectangleIsCutOutOfTheWhole) {
  const at::Tensor whole = draw_stored({70, 600}, whole_piece(70, 600));
  Piece piece = whole_piece(70, 600);
  piece.logical_range = {{13, 40}, {301, 277}};
  piece.stored_start = {2, 3};
  const at::Tensor stored = draw_stored({50, 290}, piece);
  EXPECT_TRUE(bits_equal(stored.narrow(0, 2, 40).narrow(1, 3, 277),
                         whole.narrow(0, 13, 40).narrow(1, 301, 277)));
  EXPECT_EQ(stored.count_nonzero().item<int64_t>(), 40 * 277);
}

TEST(DrawPiece, TransposedStandsOnItsSide) {
  const at::Tensor whole = draw_stored({70, 600}, whole_piece(70, 600));
  Piece piece = whole_piece(70, 600);
  piece.logical_range = {{0, 70}, {301, 277}};
  piece.stored_start = {1, 2};
  piece.transposed = true;
  const at::Tensor stored = draw_stored({278, 72}, piece);
  EXPECT_TRUE(bits_equal(stored.narrow(0, 1, 277).narrow(1, 2, 70),
                         whole.narrow(1, 301, 277).t()));
}

TEST(DrawPiece, RoundsTheSameValueToEveryDtype) {
  const at::Tensor wide = draw_stored({70, 600}, whole_piece(70, 600));
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(bits_equal(draw_stored({70, 600}, whole_piece(70, 600), dtype),
                           wide.to(at::kFloat).to(dtype)));
  }
}

TEST(DrawPiece, ConstantsFillOnlyThePiece) {
  Piece piece = whole_piece(4, 6);
  piece.initial = {.constant = 1.0};
  piece.logical_range = {{1, 2}, {0, 6}};
  const at::Tensor stored = draw_stored({4, 6}, piece);
  EXPECT_EQ(stored.narrow(0, 0, 2).min().item<double>(), 1.0);
  EXPECT_EQ(stored.sum().item<double>(), 12.0);
}

TEST(DrawPiece, NamesGiveDifferentValues) {
  Piece other = whole_piece(4, 6);
  other.logical_name = "b.weight";
  EXPECT_GT(max_difference(draw_stored({4, 6}, whole_piece(4, 6)),
                           draw_stored({4, 6}, other)),
            0.1);
}

}  // namespace
}  // namespace triax
