// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/train/replay.h"
#include "triax/train/rounding_noise.h"
#include "triax/train/stepped_run.h"
#include "triax/train/verify.h"

namespace triax {

/// Compares a layout's steps with one rank's as they come, taking the runs on
/// one rank forward beside it: of the gradients, those of one step are all
/// that is ever held. For world rank 0; verify() says what is compared how.
class Comparison {
 public:
  /// `start`: the layout's initial weights.
  Comparison(const RunConfig& config, TensorMap start);

  /// The layout's next step.
  void add(const RunStep& layout);

  /// After the last step, with the layout's weights and what its forward
  /// reads, which is the former or their rounding; once.
  VerifyReport finish(const TensorMap& end, const TensorMap& parameters);

 private:
  void compare_start();
  void compare_scalars(const RunStep& layout,
                       const RunStep& alone,
                       double replayed_norm);
  void compare_gradient(const std::string& name,
                        const at::Tensor& layout,
                        const at::Tensor& alone,
                        double rms);
  void compare_weights(const TensorMap& layout);
  void compare_rounding(const TensorMap& end, const TensorMap& parameters);
  bool compare_skip(const RunStep& layout, const RunStep& alone);
  void compare_update(const std::string& name,
                      const at::Tensor& mine,
                      const at::Tensor& expected,
                      const Distance& distance,
                      const char* reference);
  RunStep step_reference(std::map<std::string, double>& parts);
  std::vector<StepDistances> step_others(const RunStep& alone, double rms);
  void lead();
  void note_first_step(const RunStep& alone, double rms);
  void note_unproved(const std::string& name);
  bool says_nothing(const Distance& distance) const;
  double widening() const;
  double weight_bound(const at::Tensor& weight, double scale) const;
  std::string find_death() const;
  bool is_fp64() const;
  size_t num_steps() const { return report_.losses.size(); }

  const RunConfig config_;
  const bool is_exact_;                   // has_exact_gradients()
  const std::vector<std::string> names_;  // in the order of the forward pass
  const TensorMap start_;
  std::unique_ptr<LoneRun> one_rank_;
  std::vector<std::unique_ptr<LoneRun>> others_;  // that round otherwise
  TensorMap one_rank_start_;  // its equal tensors are start_'s
  Replay replay_;
  RoundingNoise noise_;
  TensorMap has_gradient_;  // in fp64: elements with one in the first step
  std::set<std::string> weak_later_;
  std::string overflow_;  // of fp16: what then cannot be compared
  VerifyReport report_;
};

}  // namespace triax
