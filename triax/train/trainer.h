// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triax/check/breaks.h"
#include "triax/comm/recorder.h"
#include "triax/config/run_config.h"
#include "triax/dataset/corpus.h"
#include "triax/dataset/loader.h"
#include "triax/memory/activation_file.h"
#include "triax/mesh/device_mesh.h"
#include "triax/optim/gradient_noise.h"
#include "triax/optim/loss_scale.h"
#include "triax/pipeline_parallel/executor.h"
#include "triax/train/memory_report.h"
#include "triax/train/rank_model.h"
#include "triax/train/trained_parameters.h"

namespace triax {

/// What a step did; the same on every rank.
struct StepStats {
  int64_t step = 0;  // 1-based: the number of steps done
  double loss = 0;   // nats per valid token of the global batch
  double grad_norm = 0;
  double lr = 0;
  int64_t num_valid_tokens = 0;
  /// Of fp16: what this step's loss was multiplied with; else 1.
  double loss_scale = 1;
  /// Gradients overflowed: nothing was updated. grad_norm is not finite then.
  bool is_skipped = false;
  int64_t num_skipped = 0;  // so far
};

struct TrainerOptions {
  Break broken = Break::kNone;
  /// Told what a step or a forward pass threw while its operations are still
  /// under way: the trainer's end waits for them, so tell the other ranks here
  /// (Board::fail).
  std::function<void(const std::exception& error)> on_failure = {};
};

/// Trains one rank's part of the model. Every rank of the mesh must call the
/// same methods in the same order; what one rank throws is its own, the
/// caller tells the others (Board::fail).
class Trainer {
 public:
  /// The config must be resolved and checked; mesh and recorder must outlive
  /// the trainer.
  Trainer(const RunConfig& config,
          DeviceMesh& mesh,
          Recorder& recorder,
          const TrainerOptions& options = {});

  /// One optimizer step over one global batch. Throws Error on every rank,
  /// before the update, when loss or gradient is not finite. With fp16 such a
  /// step is skipped by all ranks and the loss scale halved; it throws where
  /// that is at its minimum. After these another step may be tried; after
  /// whatever else is thrown out of a step or a forward pass, all that follow
  /// throw Error.
  StepStats step();
  /// The last step's batch once more, as that step and not as another: for
  /// parameters that were changed by hand. What it updates means nothing.
  StepStats repeat_step();
  /// Mean nats per token over the validation data; needs has_validation().
  double validate();
  bool has_validation() const { return validation_ != nullptr; }

  /// Runs a forward pass of the model that is no step. Every rank must call.
  void forward_pass(const std::function<void()>& call);
  /// Calls while the rank's parameters are whole. Every rank must call.
  void with_whole_weights(const std::function<void()>& call);

  int64_t steps_done() const { return steps_done_; }
  const RankModel& rank_model() const { return rank_model_; }
  const Loader& loader() const { return *loader_; }
  /// Estimated from parts of the batch against their sum; empty where there are
  /// none (TrainedParameters::num_parts()).
  std::optional<double> gradient_noise_scale() const;
  const TrainedParameters& trained() const { return trained_; }
  const LossScale& loss_scale() const { return loss_scale_; }
  /// Of this rank's files, of states and of activations.
  OffloadUse offload_use() const;
  /// Null where activations stay in memory.
  const ActivationFile* activation_file() const {
    return activation_file_.get();
  }

  /// False where TrainerOptions::broken found nothing to break in the steps so
  /// far (world rank 0 knows).
  bool has_broken() const;

  /// Called in each step when the gradients are whole, before clipping, still
  /// multiplied with the loss scale. With ZeRO they are gathered for it.
  std::function<void()> on_gradients;
  /// Called before the backward of each microbatch but a step's first, when the
  /// gradients are the sums of those before; without ZeRO.
  std::function<void()> on_partial_gradients;

 private:
  struct StepSums {
    double norm = 0;
    double loss = 0;        // summed over the valid tokens
    bool is_finite = true;  // on every rank
  };

  StepStats run_step();
  /// A call that must be whole: tells on_failure, and refuses the next one.
  void guard(const std::function<void()>& call);
  /// Throws what was behind an operation's error, where that is known.
  void with_cause(const std::function<void()>& call);
  void make_loaders();
  StageCalls training_calls();
  void run_microbatches();
  at::Tensor forward(int microbatch, const at::Tensor& input);
  at::Tensor forward_stage(const MicrobatchData& data,
                           const at::Tensor& input,
                           bool is_training);
  LossResult stage_loss(const MicrobatchData& data, const at::Tensor& logits);
  double loss_weight() const;
  StepSums share_sums();
  void add_noise(double part_squares, double norm);
  void require_finite(const StepSums& sums) const;
  void require_scale_left(const StepSums& sums) const;
  void update(double lr, double norm);
  void break_weights(double lr);
  std::vector<Action> my_actions(bool is_forward_only) const;

  const RunConfig config_;
  DeviceMesh& mesh_;
  Recorder& recorder_;
  const Break broken_;
  const std::function<void(const std::exception&)> on_failure_;
  RankModel rank_model_;
  TrainedParameters trained_;
  LossScale loss_scale_;
  const std::shared_ptr<ActivationFile> activation_file_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<ValidationSet> validation_;
  std::unique_ptr<Executor> executor_;
  GradientNoise noise_;
  StepData data_;
  double loss_sum_ = 0;
  int64_t steps_done_ = 0;
  double last_lr_ = 0;
  bool has_broken_ = false;
  bool is_underway_ = false;
  std::string failure_;  // what a call threw when it was underway
};

}  // namespace triax
