// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

inline constexpr double kFp64Bound = 1e-9;

/// Distances below these are rounding, however equal two runs happen to be.
double rounding_floor(Precision precision);

/// After an update bounds are wider by this. AdamW divides a gradient below its
/// eps (1e-8) by it: a rounding of 1e-15 moves the weight by 1e-7 of lr. And it
/// turns a gradient that is all rounding into a full step of either sign.
double after_update(Precision precision);

/// How far a run lies from the one on one rank in one step.
struct StepDistances {
  double loss = 0;
  double norm = 0;
  std::map<std::string, double> gradients;  // by logical name
};

/// What may be rounding, step by step, judged by runs that only round
/// otherwise than the one on one rank. Of the steps before, the farthest that
/// each run ever lay is all that is kept.
class RoundingNoise {
 public:
  /// `sent_as`: the type in which replicas send gradients, where they do.
  explicit RoundingNoise(Precision precision,
                         ReduceDtype sent_as = ReduceDtype::kGradients);

  /// The next step of every such run, in the same order each time; none in
  /// fp64.
  void add_step(const std::vector<StepDistances>& runs);

  /// Distances of gradients below it are rounding.
  double floor() const { return floor_; }

  // The bounds of that step.
  double loss_bound() const;
  double norm_bound() const;
  double gradient_bound(const std::string& name) const;

 private:
  double bound(double noise, double floor) const;
  double scalar_floor() const;

  const Precision precision_;
  const double floor_;
  int64_t num_steps_ = 0;
  std::vector<StepDistances> farthest_;  // of each run, so far
  StepDistances noise_;                  // the farthest of all runs
  double typical_ = 0;                   // half of the gradients stay below
  double usual_ = 0;                     // nine of ten do
};

}  // namespace triax
