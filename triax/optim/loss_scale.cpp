// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/loss_scale.h"

#include <algorithm>

namespace triax {

LossScale::LossScale(const TrainingConfig& config)
    : is_dynamic_(config.precision == Precision::kFp16),
      min_(config.min_loss_scale),
      window_(config.loss_scale_window),
      value_(is_dynamic_ ? config.initial_loss_scale : 1.0) {}

void LossScale::add_good_step() {
  num_in_a_row_ = 0;
  if (is_dynamic_ && ++num_good_ >= window_) {
    value_ = std::min(2 * value_, std::max(value_, kMaxLossScale));
    num_good_ = 0;
  }
}

void LossScale::add_overflow() {
  value_ = std::max(value_ / 2, min_);
  num_good_ = 0;
  ++num_overflows_;
  ++num_in_a_row_;
}

}  // namespace triax
