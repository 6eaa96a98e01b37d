// SPDX-License-Identifier: Apache-2.0
#include "tests/support/some_steps.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triax {

SomeSteps run_of(const Overrides& overrides,
                 int num_steps,
                 const std::function<void(Trainer&, DeviceMesh&)>& after_step) {
  const RunConfig config = checked_tiny_run(overrides);
  SomeSteps run;
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    const bool speaks = mesh.rank() == 0;
    for (int step = 0; step < num_steps; ++step) {
      const StepStats stats = trainer.step();
      EXPECT_FALSE(stats.is_skipped);
      if (speaks) {
        run.losses.push_back(stats.loss);
        run.norms.push_back(stats.grad_norm);
      }
      after_step(trainer, mesh);
    }
    const auto gather = [&](const SlotTensor& which) {
      GatheredTensors gathered =
          gather_logical(config, mesh, trainer.rank_model().slots, which);
      if (speaks) {
        run.drifted.insert(run.drifted.end(),
                           gathered.drifted.begin(),
                           gathered.drifted.end());
      }
      return std::move(gathered.tensors);
    };
    trainer.with_whole_weights([&] {
      TensorMap weights = gather(weight_of);
      TensorMap masters;
      if (has_master_weights(config.training.precision)) {
        const auto stored = trainer.trained().gather_masters();
        masters = gather([&](const ParameterSlot& slot) {
          return stored.at(slot.layout.name);
        });
      }
      if (speaks) {
        run.weights = std::move(weights);
        run.masters = std::move(masters);
      }
    });
  });
  return run;
}

void expect_same_bits(const SomeSteps& run,
                      const SomeSteps& plain,
                      const std::string& of) {
  EXPECT_EQ(run.losses, plain.losses) << of;
  EXPECT_EQ(run.norms, plain.norms) << of;
  EXPECT_THAT(run.drifted, testing::IsEmpty()) << of;
  ASSERT_FALSE(plain.weights.empty());
  for (const auto& [name, weight] : plain.weights) {
    EXPECT_TRUE(at::equal(run.weights.at(name), weight)) << of << ": " << name;
  }
  for (const auto& [name, master] : plain.masters) {
    EXPECT_TRUE(at::equal(run.masters.at(name), master)) << of << ": " << name;
  }
}

}  // namespace triax
