// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/layout_run.h"
#include "triax/train/gather.h"

namespace triax {

/// What some steps leave on world rank 0.
struct SomeSteps {
  std::vector<double> losses;
  std::vector<double> norms;
  TensorMap weights;
  TensorMap masters;           // where there are any
  std::vector<Drift> drifted;  // between copies
};

/// Trains tests/parity/walk.toml with overrides. `after_step` is called on
/// every rank.
SomeSteps run_of(
    const Overrides& overrides,
    int num_steps = 4,
    const std::function<void(Trainer&, DeviceMesh&)>& after_step =
        [](Trainer&, DeviceMesh&) {});

/// Losses, norms, weights and masters bit by bit, and no copy drifted.
void expect_same_bits(const SomeSteps& run,
                      const SomeSteps& plain,
                      const std::string& of);

}  // namespace triax
