// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/gradient_sums.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"

namespace triax {
namespace {

constexpr int64_t kNumel = 64;

at::Tensor filled(double value) {
  return at::full({kNumel}, value, at::kFloat);
}

double element_of(const at::Tensor& tensor) {
  EXPECT_EQ(tensor.max().item<double>(), tensor.min().item<double>());
  return tensor[0].item<double>();
}

// Parts 257 and 1 are 256 and 1 in bf16; their sum 257 is 256 again. As they
// are: 258.
TEST(GradientSums, RoundThePartsAndTheSumToWhatIsSent) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const double part = world->rank() == 0 ? 257.0 : 1.0;
    for (const bool is_narrow : {false, true}) {
      GradientSums sums(is_narrow ? std::optional(at::kBFloat16)
                                  : std::nullopt);
      const at::Tensor values = filled(part);
      sums.all_reduce(*world, values);
      const at::Tensor whole = filled(part);
      const at::Tensor mine = whole.narrow(0, 32 * world->rank(), 32);
      sums.reduce_scatter(*world, whole, mine);
      sums.wait();
      EXPECT_TRUE(sums.empty());
      EXPECT_EQ(element_of(values), is_narrow ? 256.0 : 258.0);
      EXPECT_EQ(element_of(mine), is_narrow ? 256.0 : 258.0);
      EXPECT_EQ(sums.most_bytes(), is_narrow ? 2 * 2 * kNumel : 0);
    }
  });
}

// Added in fp32 and in rank order: 1 + 2^-8 + 2^-8 is 1 + 2^-7, a bf16 number,
// where adding in bf16 would lose both.
TEST(GradientSums, AddWhatIsSentInFp32) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    GradientSums sums(at::kBFloat16);
    const at::Tensor values = filled(world->rank() == 0 ? 1.0 : 0x1p-8);
    sums.all_reduce(*world, values);
    sums.wait();
    EXPECT_EQ(element_of(values), 1.0 + 0x1p-7);
  });
}

TEST(GradientSums, HoldTwoCopiesAtMost) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    GradientSums sums(at::kHalf);
    std::vector<at::Tensor> values;
    for (int i = 0; i < 7; ++i) {
      values.push_back(filled(i));
    }
    for (const at::Tensor& each : values) {
      sums.all_reduce(*world, each);
    }
    sums.wait();
    EXPECT_EQ(sums.most_bytes(), 2 * 2 * kNumel);
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(element_of(values[i]), 2.0 * i);
    }
  });
}

}  // namespace
}  // namespace triax
