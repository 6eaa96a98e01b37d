// SPDX-License-Identifier: Apache-2.0
#include "tests/support/step_bits.h"

#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace triax {

std::vector<RankEnd> train_two_steps(
    const Overrides& overrides,
    const std::function<void(Trainer&, DeviceMesh&)>& at_end) {
  const RunConfig config = checked_tiny_run(overrides);
  std::vector<RankEnd> ends(config.world_size());
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    RankEnd& end = ends[mesh.rank()];
    trainer.on_gradients = [&] {
      for (const ParameterSlot* slot : trainer.rank_model().slots) {
        if (slot->tensor.grad().defined()) {
          end.tensors.push_back(slot->tensor.grad().clone());
        }
      }
    };
    for (int step = 0; step < 2; ++step) {
      const StepStats stats = trainer.step();
      end.losses.push_back(stats.loss);
      end.norms.push_back(stats.grad_norm);
    }
    for (const ParameterSlot* slot : trainer.rank_model().slots) {
      end.tensors.push_back(slot->tensor.detach().clone());
    }
    if (at_end) {
      at_end(trainer, mesh);
    }
  });
  return ends;
}

void expect_same_bits(const std::vector<RankEnd>& a,
                      const std::vector<RankEnd>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t rank = 0; rank < a.size(); ++rank) {
    EXPECT_EQ(a[rank].losses, b[rank].losses);
    EXPECT_EQ(a[rank].norms, b[rank].norms);
    ASSERT_EQ(a[rank].tensors.size(), b[rank].tensors.size());
    for (size_t i = 0; i < a[rank].tensors.size(); ++i) {
      EXPECT_TRUE(bits_equal(a[rank].tensors[i], b[rank].tensors[i]))
          << "rank " << rank << ", tensor " << i;
    }
  }
}

}  // namespace triax
