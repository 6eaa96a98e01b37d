// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/comm/elements.h"
#include "triax/comm/reduce_kernels.h"

namespace triax {
namespace {

TEST(Reduce, EqualsThePlainReferenceBitForBit) {
  for (DType dtype : kAllDTypes) {
    for (ReduceOp op : kAllReduceOps) {
      for (int num_inputs : {1, 2, 3, 8}) {
        for (int64_t numel : {0, 1, 7, 63, 1024, 1025, 5000}) {
          std::vector<Elements> inputs;
          std::vector<const void*> pointers;
          for (int rank = 0; rank < num_inputs; ++rank) {
            inputs.push_back(samples(dtype, numel, rank, 5));
          }
          for (Elements& input : inputs) {
            pointers.push_back(input.buffer().data);
          }
          Elements out(dtype, numel);
          Elements copy(dtype, numel);
          reduce(pointers.data(),
                 num_inputs,
                 numel,
                 dtype,
                 op,
                 out.buffer().data,
                 copy.buffer().data);
          const Elements expected = reference_reduce(inputs, op);
          EXPECT_EQ(out, expected)
              << dtype_name(dtype) << " " << reduce_op_name(op) << " " << numel;
          EXPECT_EQ(copy, expected);
        }
      }
    }
  }
}

TEST(Reduce, AnInputMayBeTheOutput) {
  for (int place : {0, 1, 2}) {
    std::vector<Elements> inputs;
    std::vector<const void*> pointers;
    for (int rank = 0; rank < 3; ++rank) {
      inputs.push_back(samples(DType::kBfloat16, 3000, rank, 1));
    }
    const Elements expected = reference_reduce(inputs, ReduceOp::kSum);
    for (Elements& input : inputs) {
      pointers.push_back(input.buffer().data);
    }
    Elements& out = inputs[size_t(place)];
    reduce(pointers.data(),
           3,
           3000,
           DType::kBfloat16,
           ReduceOp::kSum,
           out.buffer().data);
    EXPECT_EQ(out, expected);
  }
}

TEST(Reduce, NanAndInfinityGoThroughEveryOp) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kInt64) {
      continue;
    }
    for (ReduceOp op : kAllReduceOps) {
      for (int place : {0, 1, 2}) {
        std::vector<Elements> inputs;
        std::vector<const void*> pointers;
        for (int rank = 0; rank < 3; ++rank) {
          inputs.push_back(samples(dtype, 100, rank, 3));
        }
        inputs[size_t(place)].set(40, nan);
        inputs[size_t(place)].set(41, infinity);
        inputs[size_t(place)].set(99, nan);
        for (Elements& input : inputs) {
          pointers.push_back(input.buffer().data);
        }
        Elements out(dtype, 100);
        reduce(pointers.data(), 3, 100, dtype, op, out.buffer().data);
        EXPECT_TRUE(std::isnan(out.get(40)));
        EXPECT_TRUE(std::isnan(out.get(99)));
        EXPECT_EQ(out.get(41), infinity);
        EXPECT_TRUE(std::isfinite(out.get(42)));
      }
    }
  }
}

TEST(Reduce, Float16IsWidenedAndRoundedAsTheProcessorDoes) {
  // Blocks of eight go the fast way, single elements the plain one.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = uint16_t(bits);
    float plain = 0.0f;
    detail::widen_f16(&plain, &half, 1);
    const uint16_t many[8] = {half, half, half, half, half, half, half, half};
    float fast[8];
    detail::widen_f16(fast, many, 8);
    ASSERT_EQ(std::bit_cast<uint32_t>(plain), std::bit_cast<uint32_t>(fast[3]))
        << bits;
    ASSERT_TRUE(std::isnan(plain) ||
                plain == float(std::bit_cast<_Float16>(half)));
  }
  for (uint64_t i = 0; i < 2'000'000; ++i) {
    const float value =
        std::bit_cast<float>(uint32_t(i * 2147483647 + (i << 7)));
    uint16_t plain = 0;
    detail::narrow_f16(&plain, &value, 1);
    const float many[8] = {
        value, value, value, value, value, value, value, value};
    uint16_t fast[8];
    detail::narrow_f16(fast, many, 8);
    ASSERT_EQ(plain, fast[5]) << std::bit_cast<uint32_t>(value);
  }
}

}  // namespace
}  // namespace triax
