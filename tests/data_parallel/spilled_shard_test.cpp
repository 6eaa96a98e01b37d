// SPDX-License-Identifier: Apache-2.0
// Shards of gradients and parameters that lie on file.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/run_ranks.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tensors.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/data_parallel/sharded_gradients.h"
#include "triax/data_parallel/sharded_parameters.h"

namespace triax {
namespace {

class SpilledShard : public testing::Test {
 protected:
  SpilledArrays arrays(const SpillLayout& spill) const {
    return {folder_.path().string(),
            spill.numel,
            {{"other", at::kFloat}, {"values", at::kDouble}},
            {.window_numel = kSpillAlignment}};
  }

 private:
  ScratchFolder folder_;
};

void run_backward(const std::vector<at::Tensor>& parameters, double value) {
  at::Tensor sum = at::full({}, 0.0, at::kDouble);
  for (const at::Tensor& parameter : parameters) {
    sum = sum + parameter.sum() * value;
  }
  torch::autograd::backward({sum}, {});
}

// Two replicas, two microbatches each, gradients (1, 3) and (5, 7): the mean is
// 4; then the other way round.
TEST_F(SpilledShard, GradientsAddUpOnFile) {
  for (const int64_t cap : {1, 64, 1000, 1 << 27}) {
    run_ranks(2, [&](std::unique_ptr<Group> world) {
      std::vector<at::Tensor> parameters;
      for (const int64_t size : {1, 100, 3, 64, 9500, 0}) {
        parameters.push_back(at::ones({size}, at::kDouble).requires_grad_());
      }
      ReplicaGroups groups(*world, 2);
      const FlatLayout layout = make_flat_layout(
          numels_of(parameters), {.bucket_numel = cap, .num_shards = 2});
      const SpillLayout spill = spill_layout(layout);
      SpilledArrays file = arrays(spill);
      ShardedGradients gradients(
          parameters, layout, groups, std::nullopt, {&file, 1, spill});
      EXPECT_EQ(gradients.nbytes(), 0);
      const auto slices = slices_of_shard(layout, groups.shard());
      for (int step = 0; step < 3; ++step) {
        const double first = (world->rank() == 0) == (step % 2 == 0) ? 1 : 5;
        gradients.zero();
        for (const bool is_last : {false, true}) {
          gradients.before_backward(is_last);
          run_backward(parameters, (is_last ? first + 2 : first) / 4);
          gradients.after_backward();
        }
        gradients.finish();
        std::vector<int64_t> seen(slices.size());
        gradients.visit_owned(
            slices,
            /*is_written=*/true,
            [&](size_t i, const Range& elements, const at::Tensor& values) {
              EXPECT_EQ(elements.start - slices[i].elements.start, seen[i]);
              seen[i] += elements.length;
              EXPECT_TRUE(at::equal(values, at::full_like(values, 4.0)));
              values.mul_(0.5);
            });
        for (size_t i = 0; i < slices.size(); ++i) {
          EXPECT_EQ(seen[i], slices[i].elements.length);
        }
        gradients.gather();
        for (const at::Tensor& parameter : parameters) {
          EXPECT_TRUE(
              at::equal(parameter.grad(), at::full_like(parameter, 2.0)))
              << "cap " << cap;
        }
        gradients.release();
      }
    });
  }
}

/// Units of two parameters each.
std::vector<UnitParameter> unit_parameters(int num_units) {
  std::vector<UnitParameter> parameters;
  for (int i = 0; i < num_units; ++i) {
    const std::string unit = "unit " + std::to_string(i);
    parameters.push_back({.numel = 5000 + i, .unit = unit});
    parameters.push_back({.numel = 70, .unit = unit});
  }
  return parameters;
}

at::Tensor values_of(int parameter, int64_t numel) {
  return random_tensor({numel}, static_cast<uint64_t>(parameter + 1));
}

TEST_F(SpilledShard, ParametersAreGatheredFromFile) {
  constexpr int kNumUnits = 5;
  for (const int prefetch : {0, 1, 2}) {
    run_ranks(3, [&](std::unique_ptr<Group> world) {
      const UnitLayout layout =
          make_unit_layout(unit_parameters(kNumUnits), 1 << 20, 3);
      const SpillLayout spill = spill_layout(layout.flat);
      SpilledArrays file = arrays(spill);
      std::vector<PartPlace> places;
      for (const Range& bucket : spill.buckets) {
        places.push_back({&file, 1, bucket});
      }
      ShardedParameters sharded(
          layout, at::kDouble, *world, {.prefetch = prefetch}, places);
      EXPECT_EQ(sharded.nbytes(), 0);
      std::vector<at::Tensor> all;
      for (int unit = 0; unit < kNumUnits; ++unit) {
        std::vector<at::Tensor> parameters;
        for (const int i : layout.units[unit].parameters) {
          parameters.push_back(values_of(i, layout.flat.parameters[i].length));
          all.push_back(parameters.back());
        }
        sharded.add(unit, parameters);
      }
      double factor = 1.0;
      for (int pass = 0; pass < 4; ++pass) {
        sharded.begin_pass();
        for (size_t i = 0; i < all.size(); ++i) {
          const auto expected =
              values_of(static_cast<int>(i), all[i].numel()) * factor;
          EXPECT_TRUE(at::equal(all[i] * 1.0, expected)) << i;
          if (pass == 1) {
            const at::NoGradGuard no_grad;
            all[i].mul_(3.0);  // in place: every rank keeps its part
          }
        }
        factor *= pass == 1 ? 3.0 : 1.0;
        sharded.end_pass();
        sharded.rethrow_failure();
      }
      // What an update writes on file is what the next pass sees.
      file.for_each_window(
          {{0, spill.numel}, {1}, {1}},
          [](const ArrayWindow& window) { window.arrays[1].mul_(0.5); });
      sharded.begin_pass();
      for (size_t i = 0; i < all.size(); ++i) {
        const auto expected =
            values_of(static_cast<int>(i), all[i].numel()) * factor * 0.5;
        EXPECT_TRUE(at::equal(all[i] * 1.0, expected)) << i;
      }
      sharded.end_pass();
    });
  }
}

}  // namespace
}  // namespace triax
