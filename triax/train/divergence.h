// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "triax/config/run_config.h"

namespace triax {

/// What may help a run whose loss or gradient is not finite after
/// `steps_done` updates: only settings that can still be changed that way.
/// `lr` is the rate of the step before it.
std::string divergence_advice(const RunConfig& config,
                              int64_t steps_done,
                              double lr);

/// The losses of a run, by which its end is judged. A plain value.
class LossRecord {
 public:
  /// A loss that is not finite is that of a step that fp16 skipped, and no
  /// part of the record.
  void add(double loss);
  /// The last loss is closer to the first than to the lowest, so the run lost
  /// most of what it had learnt, or never learnt anything. False before the
  /// second loss.
  bool has_diverged() const;
  double first() const { return first_; }
  double last() const { return last_; }

 private:
  int64_t count_ = 0;
  double first_ = 0;
  double lowest_ = 0;
  double last_ = 0;
};

/// What the gradient noise scale says of the batch size; of a run that
/// diverged it says nothing.
std::string batch_advice(double noise_scale,
                         double global_batch_size,
                         const LossRecord& losses);

}  // namespace triax
