// SPDX-License-Identifier: Apache-2.0
#include "triax/model/initial_values.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/model/parallel_rows.h"
#include "triax/model/piece_part.h"

namespace triax {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 256;

/// Natural logarithm of a normal number, by the series of artanh.
double fixed_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) |
                                          0x3FF0000000000000);  // [1, 2)
  if (mantissa > std::numbers::sqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double series = 0.0;
  for (int power = 23; power >= 1; power -= 2) {
    series = series * square + 1.0 / power;
  }
  return 2 * s * series + exponent * std::numbers::ln2;
}

struct CosineSine {
  double cosine;
  double sine;
};

/// Of 2π · turn, turn in [0, 1): Taylor series within a quarter, then turned.
CosineSine fixed_cosine_sine(double turn) {
  const int quarter = static_cast<int>(turn * 4 + 0.5);
  const double x = (turn - quarter * 0.25) * (2 * std::numbers::pi);
  const double square = x * x;
  double cosine = 1.0;
  double sine = 1.0;
  for (int n = 16; n >= 2; n -= 2) {
    cosine = 1.0 - cosine * square / (n * (n - 1));
    sine = 1.0 - sine * square / (n * (n + 1));
  }
  sine *= x;
  switch (quarter % 4) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

std::array<double, 2> normal_pair(PhiloxKey key, uint64_t pair) {
  const PhiloxCounter bits = philox(
      {static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), 0, 0},
      key);
  const auto unit = [](uint32_t low, uint32_t high) {
    const uint64_t both = uint64_t{high} << 32 | low;
    return static_cast<double>(both >> 11) * 0x1p-53;  // [0, 1)
  };
  const double radius = std::sqrt(-2 * fixed_log(1 - unit(bits[0], bits[1])));
  const CosineSine angle = fixed_cosine_sine(unit(bits[2], bits[3]));
  return {radius * angle.cosine, radius * angle.sine};
}

/// A piece as rows and columns of the logical parameter.
struct Rectangle {
  Range rows;
  Range columns;
  int64_t logical_columns = 1;
};

Rectangle rectangle_of(const Piece& piece) {
  const size_t rank = piece.logical_range.size();
  TRIAX_CHECK(rank == 1 || rank == 2, piece.logical_name);
  if (rank == 1) {
    return {{0, 1}, piece.logical_range[0], piece.logical_shape[0]};
  }
  return {
      piece.logical_range[0], piece.logical_range[1], piece.logical_shape[1]};
}

/// Where logical (i, j) of the rectangle stands: base + i · row + j · column.
struct Target {
  int64_t base = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

Target target_of(const at::Tensor& stored, const Piece& piece) {
  TRIAX_CHECK(stored.is_contiguous(), piece.logical_name);
  TRIAX_CHECK(static_cast<size_t>(stored.dim()) == piece.stored_start.size(),
              piece.logical_name);
  if (stored.dim() == 1) {
    return {piece.stored_start[0], 0, 1};
  }
  const int64_t width = stored.size(1);
  const int64_t base = piece.stored_start[0] * width + piece.stored_start[1];
  return piece.transposed ? Target{base, 1, width} : Target{base, width, 1};
}

template <class Element>
Element round_to(double value) {
  if constexpr (std::is_same_v<Element, double>) {
    return value;
  } else {
    return static_cast<Element>(static_cast<float>(value));
  }
}

struct Draw {
  Rectangle from;
  Target to;
  PhiloxKey key;
  double std = 0.0;
};

template <class Element>
void draw_tile(const Draw& draw, Range rows, Range columns, Element* out) {
  double values[kTileRows][kTileColumns];
  for (int64_t i = 0; i < rows.length; ++i) {
    const int64_t row = draw.from.rows.start + rows.start + i;
    const int64_t column = draw.from.columns.start + columns.start;
    draw_normal(draw.key,
                row * draw.from.logical_columns + column,
                values[i],
                columns.length);
  }
  Element* const first = out + draw.to.base + rows.start * draw.to.row_stride +
                         columns.start * draw.to.column_stride;
  for (int64_t j = 0; j < columns.length; ++j) {
    for (int64_t i = 0; i < rows.length; ++i) {
      first[i * draw.to.row_stride + j * draw.to.column_stride] =
          round_to<Element>(values[i][j] * draw.std);
    }
  }
}

template <class Element>
void draw_rectangle(const Draw& draw, Element* out) {
  const Range& rows = draw.from.rows;
  const Range& columns = draw.from.columns;
  const int64_t down = divide_up(rows.length, kTileRows);
  const int64_t across = divide_up(columns.length, kTileColumns);
  parallel_rows(down * across, /*grain=*/8, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t i = tile / across * kTileRows;
      const int64_t j = tile % across * kTileColumns;
      draw_tile(draw,
                {i, std::min(kTileRows, rows.length - i)},
                {j, std::min(kTileColumns, columns.length - j)},
                out);
    }
  });
}

}  // namespace

void draw_normal(PhiloxKey key,
                 int64_t first_element,
                 double* out,
                 int64_t count) {
  int64_t i = 0;
  if (first_element % 2 == 1 && count > 0) {
    out[i++] = normal_pair(key, first_element / 2)[1];
  }
  for (; i < count; i += 2) {
    const auto pair = normal_pair(key, (first_element + i) / 2);
    out[i] = pair[0];
    if (i + 1 < count) {
      out[i + 1] = pair[1];
    }
  }
}

void draw_piece(const at::Tensor& stored, const Piece& piece, uint64_t seed) {
  const at::Tensor data = stored.detach();
  if (piece.initial.normal_std == 0.0) {
    stored_part(data, piece).fill_(piece.initial.constant);
    return;
  }
  const Draw draw{rectangle_of(piece),
                  target_of(data, piece),
                  make_philox_key(seed, piece.logical_name),
                  piece.initial.normal_std};
  switch (data.scalar_type()) {
    case at::kDouble:
      return draw_rectangle(draw, data.data_ptr<double>());
    case at::kFloat:
      return draw_rectangle(draw, data.data_ptr<float>());
    case at::kBFloat16:
      return draw_rectangle(draw, data.data_ptr<c10::BFloat16>());
    case at::kHalf:
      return draw_rectangle(draw, data.data_ptr<c10::Half>());
    default:
      TRIAX_CHECK(false, piece.logical_name, ": not a floating dtype");
  }
}

}  // namespace triax
