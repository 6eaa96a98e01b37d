// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

inline constexpr double kFp64Bound = 1e-9;

/// Distances below these are rounding, however equal two runs happen to be.
double rounding_floor(Precision precision);

/// How far two runs lie apart in one step.
struct StepDistances {
  double loss = 0;
  double norm = 0;                          // of all gradients together
  std::map<std::string, double> gradients;  // by logical name
};

/// What may be rounding in a step, judged by runs that only round otherwise
/// than the one on one rank. Of the steps before, the farthest that these lay
/// is kept.
class RoundingNoise {
 public:
  explicit RoundingNoise(Precision precision);

  /// The next step. `sent`: what sending gradients in a narrower type may do at
  /// most; nothing where they are sent as they are. `runs`: none in fp64.
  void add_step(const std::vector<StepDistances>& runs,
                const StepDistances& sent);

  /// Distances of gradients below it are rounding.
  double floor() const { return floor_; }

  // The bounds of that step.
  double loss_bound() const;
  double norm_bound() const;
  /// `numel`: of the gradient.
  double gradient_bound(const std::string& name, int64_t numel) const;

 private:
  double scalar_floor() const;

  const double floor_;
  StepDistances noise_;  // the farthest of all runs so far
  StepDistances sent_;   // of this step
  double usual_ = 0;     // nine of ten gradients stay below
};

/// What sending gradients in bf16 may do to their sum at most, where the norms
/// of the parts of `name` add up to `parts`. Rounding moves an element by 2^-8
/// of itself; each part is rounded when it is sent and the sum once, within a
/// zero_group and again across them, and the norms of sums are no larger.
double sent_in_bf16(double parts);

}  // namespace triax
