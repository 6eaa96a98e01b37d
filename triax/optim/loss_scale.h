// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triax/config/run_config.h"

namespace triax {

/// What the loss is multiplied with before backward, so that small gradients
/// do not vanish in fp16 (Micikevicius et al. 2018, section 3.2), adjusted as
/// in section 3.3 there: halved when a gradient overflowed, doubled after so
/// many steps without. For other precisions it is 1 and stays so.
///
/// Powers of two, so that dividing by it later rounds nothing. The same on all
/// ranks as long as all are told the same.
class LossScale {
 public:
  explicit LossScale(const TrainingConfig& config);

  bool is_dynamic() const { return is_dynamic_; }
  double value() const { return value_; }

  /// A step without an overflow was made.
  void add_good_step();
  /// A step overflowed and is skipped. Halves the scale, not below
  /// training.min_loss_scale.
  void add_overflow();
  /// It cannot be halved any more: another overflow will not be mended.
  bool is_at_minimum() const { return value_ <= min_; }

  int64_t num_overflows() const { return num_overflows_; }
  /// Overflows since the last good step.
  int64_t num_in_a_row() const { return num_in_a_row_; }

 private:
  bool is_dynamic_;
  double min_;
  int64_t window_;
  double value_;
  int64_t num_good_ = 0;  // since the scale changed
  int64_t num_overflows_ = 0;
  int64_t num_in_a_row_ = 0;
};

/// The largest scale: no gradient that needs more is told from zero in fp32.
inline constexpr double kMaxLossScale = 4294967296.0;  // 2^32

}  // namespace triax
