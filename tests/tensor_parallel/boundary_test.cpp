// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/boundary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"

namespace triax {
namespace {

TEST(Boundary, CopyToSumsTheGradient) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const at::Tensor x = at::ones({4}, at::kDouble).requires_grad_();
    const at::Tensor y = copy_to(*world)(x);
    EXPECT_TRUE(y.equal(x));
    (y * (world->rank() + 1.0)).sum().backward();
    EXPECT_EQ(x.grad().sum().item<double>(), 4 * (1 + 2 + 3));
  });
}

TEST(Boundary, ReduceFromSumsTheOutput) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const at::Tensor x =
        at::full({4}, world->rank() + 1.0, at::kDouble).requires_grad_();
    const at::Tensor y = reduce_from(*world)(x);
    EXPECT_EQ(y.sum().item<double>(), 4 * 6);
    EXPECT_EQ(x.sum().item<double>(), 4 * (world->rank() + 1.0));
    (y * 5.0).sum().backward();
    EXPECT_EQ(x.grad().sum().item<double>(), 20.0);
  });
}

/// [2, length, 3] in which every element is another number.
at::Tensor numbered(int64_t length) {
  return at::arange(2 * length * 3, at::kDouble).view({2, length, 3});
}

TEST(Boundary, GatherSequenceJoinsThePartsAndSumsTheGradient) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const at::Tensor whole = numbered(6);
    const at::Tensor mine =
        whole.narrow(1, 2 * world->rank(), 2).clone().requires_grad_();
    const at::Tensor y = gather_sequence(*world)(mine);
    EXPECT_TRUE(y.equal(whole));
    (y * whole * (world->rank() + 1.0)).sum().backward();
    EXPECT_TRUE(mine.grad().equal(mine.detach() * (1 + 2 + 3)));
  });
}

TEST(Boundary, ScatterSequenceSumsAndKeepsAPart) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const at::Tensor whole = numbered(6);
    const at::Tensor mine =
        (whole * (world->rank() + 1.0)).detach().requires_grad_();
    const at::Tensor y = scatter_sequence(*world)(mine);
    const at::Tensor part = whole.narrow(1, 2 * world->rank(), 2);
    EXPECT_TRUE(y.equal(part * (1 + 2 + 3)));
    (y * part).sum().backward();
    EXPECT_TRUE(mine.grad().equal(whole));
  });
}

}  // namespace
}  // namespace triax
