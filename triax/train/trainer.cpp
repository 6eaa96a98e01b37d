// SPDX-License-Identifier: Apache-2.0
#include "triax/train/trainer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "triax/base/error.h"
#include "triax/data_parallel/grad_norm.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/optim/lr_schedule.h"
#include "triax/optim/parameter_groups.h"
#include "triax/plan/sharding.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

// B microbatch size, S sequence length

/// The microbatch's numbers as a tensor that does not own them.
at::Tensor as_tensor(const std::vector<int64_t>& values, int64_t num_rows) {
  return at::from_blob(
      const_cast<int64_t*>(values.data()),
      {num_rows, static_cast<int64_t>(values.size()) / num_rows},
      at::kLong);
}

Loader::Options loader_options(const RunConfig& config, int dp_rank) {
  return {.batch = make_batch_options(config, dp_rank),
          .seed = static_cast<uint64_t>(config.training.seed),
          .prefetch_steps = 2};
}

/// By the names of the stored parameters. As rank 0 of tp stores them: it owns
/// rows of everything, where others may hold padding alone, and all of them
/// must freeze alike.
std::map<std::string, ParameterSetting> settings_by_name(
    const RunConfig& config, const ModelPart& part) {
  std::map<std::string, ParameterSetting> settings;
  for (const ParameterLayout& layout :
       parameter_layouts(config.model, part, config.parallel.tp, 0)) {
    settings[layout.name] = parameter_setting(config.optimizer, layout);
  }
  return settings;
}

}  // namespace

Trainer::Trainer(const RunConfig& config,
                 DeviceMesh& mesh,
                 Recorder& recorder,
                 const TrainerOptions& options)
    : config_(config),
      mesh_(mesh),
      recorder_(recorder),
      broken_(options.broken),
      on_failure_(options.on_failure),
      rank_model_(build_rank_model(config, mesh, options.broken)),
      partial_(config.model, mesh.group(Axis::kTp)) {
  make_gradients();
  make_loaders();
  const StageCalls calls = training_calls();
  executor_ = std::make_unique<Executor>(
      my_actions(false), mesh_.group(Axis::kPp), calls, recorder_);
}

std::vector<Action> Trainer::my_actions(bool is_forward_only) const {
  const int num_microbatches = static_cast<int>(config_.num_microbatches());
  const int num_stages = mesh_.dims().pp;
  const auto lists =
      is_forward_only
          ? for_all_ranks(forward_only, num_stages, num_microbatches)
          : make_schedule(
                config_.parallel.schedule, num_stages, num_microbatches);
  return lists[mesh_.coord().pp];
}

void Trainer::make_gradients() {
  check_parameter_groups(
      config_.optimizer,
      whole_model_layouts(config_.model, config_.parallel.tp));
  std::vector<at::Tensor> parameters;
  std::vector<OptimizedTensor> optimized;
  // Backward finishes the last layers first: lay them out in that order.
  const auto settings = settings_by_name(config_, rank_model_.part);
  const auto& slots = rank_model_.slots;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    const ParameterSetting& setting = settings.at((*slot)->layout.name);
    (*slot)->tensor.requires_grad_(!setting.is_frozen);
    if (!setting.is_frozen) {
      trained_.push_back(*slot);
      parameters.push_back((*slot)->tensor);
      optimized.push_back({.parameter = (*slot)->tensor,
                           .gradient = {},
                           .lr_scale = setting.lr_scale,
                           .weight_decay = setting.weight_decay});
    }
  }
  {
    const MemoryScope memory(MemoryCategory::kGradients);
    gradients_ = std::make_unique<FlatBuffer>(parameters);
  }
  for (size_t i = 0; i < optimized.size(); ++i) {
    optimized[i].gradient = gradients_->gradient(static_cast<int>(i));
  }
  reducer_ = std::make_unique<BucketReducer>(
      *gradients_,
      mesh_.group(Axis::kDp),
      BucketOptions{.cap_bytes = config_.parallel.bucket_bytes});
  if (mesh_.dims().dp > 1 && !has_split_gradients()) {
    reducer_->before_reduce = [this](int bucket) {
      for (int parameter : reducer_->buckets()[bucket].parameters) {
        replica_squares_ += owned_squares(*trained_[parameter]);
      }
    };
  }
  if (broken_ == Break::kSkipReplicaReduction && mesh_.coord().dp > 0) {
    reducer_->before_reduce = [this](int bucket) {
      if (bucket == 0) {
        gradients_->slice(reducer_->buckets()[0].range).zero_();
      }
    };
  }
  const MemoryScope memory(MemoryCategory::kOptimizer);
  optimizer_ = make_optimizer(config_.optimizer, std::move(optimized));
}

void Trainer::make_loaders() {
  const Corpus corpus = open_corpus(config_.data);
  const int dp_rank = mesh_.coord().dp;
  loader_ = std::make_unique<Loader>(corpus.training_file,
                                     corpus.training_tokens,
                                     loader_options(config_, dp_rank));
  if (corpus.validation_file) {
    validation_ =
        std::make_unique<ValidationSet>(corpus.validation_file,
                                        corpus.validation_tokens,
                                        make_batch_options(config_, dp_rank),
                                        config_.training.validation_batches);
  }
}

StageCalls Trainer::training_calls() {
  StageCalls calls;
  calls.forward = [this](int microbatch, const at::Tensor& input) {
    return forward(microbatch, input);
  };
  calls.make_activation = [this](int) {
    return at::empty({config_.training.microbatch_size,
                      config_.data.sequence_length,
                      config_.model.hidden_size},
                     to_scalar_type(storage_dtype(config_.training.precision)));
  };
  calls.before_backward = [this](int microbatch, bool is_last) {
    break_running_sum(microbatch);
    if (is_last) {
      reducer_->prepare();
    }
  };
  return calls;
}

StepStats Trainer::step() {
  try {
    return run_step();
  } catch (const std::exception& error) {
    if (on_failure_) {
      on_failure_(error);
    }
    throw;
  }
}

StepStats Trainer::run_step() {
  {
    const auto span = recorder_.span(EventKind::kData);
    data_ = loader_->next();
  }
  run_microbatches();
  sum_gradients();
  if (on_gradients) {
    on_gradients();
  }
  const StepSums sums = share_sums();
  const double lr =
      learning_rate(config_.optimizer, config_.training.steps, steps_done_);
  require_finite(sums);
  update(lr, sums.norm);
  ++steps_done_;
  const auto count = std::max<int64_t>(data_.num_valid_tokens, 1);
  return {.step = steps_done_,
          .loss = sums.loss / static_cast<double>(count),
          .grad_norm = sums.norm,
          .lr = lr,
          .num_valid_tokens = data_.num_valid_tokens};
}

void Trainer::run_microbatches() {
  gradients_->zero();
  loss_sum_ = 0;
  replica_squares_ = 0;
  executor_->run();
}

at::Tensor Trainer::forward(int microbatch, const at::Tensor& input) {
  const MicrobatchData& data = data_.microbatches[microbatch];
  const at::Tensor output = forward_stage(data, input, /*is_training=*/true);
  if (!mesh_.is_last_stage()) {
    return output;
  }
  const at::Tensor loss = stage_loss(data, output).loss;
  const bool is_dropped =
      broken_ == Break::kDropMicrobatch &&
      microbatch == static_cast<int>(data_.microbatches.size()) - 1;
  if (is_dropped) {
    return loss * 0.0;
  }
  loss_sum_ += loss.item<double>();
  return loss * loss_scale();
}

at::Tensor Trainer::forward_stage(const MicrobatchData& data,
                                  const at::Tensor& input,
                                  bool is_training) {
  const auto num_rows = static_cast<int64_t>(data.sample_ids.size());
  Place place;
  place.sample_ids = data.sample_ids;
  place.step = steps_done_;
  place.seed = static_cast<uint64_t>(config_.training.seed);
  place.is_training = is_training;
  if (broken_ == Break::kLocalDropout) {
    for (int64_t i = 0; i < num_rows; ++i) {
      place.sample_ids[i] = i;
    }
  }
  if (!data.document_ids.empty()) {
    place.document_ids = as_tensor(data.document_ids, num_rows);
  }
  const at::Tensor x =
      input.defined() ? input : as_tensor(data.tokens, num_rows);
  return rank_model_.model->forward(x, place);
}

LossResult Trainer::stage_loss(const MicrobatchData& data,
                               const at::Tensor& logits) {
  const auto num_rows = static_cast<int64_t>(data.sample_ids.size());
  return cross_entropy(
      logits, as_tensor(data.labels, num_rows), rank_model_.loss);
}

double Trainer::loss_scale() const {
  // A batch in which every label is ignored has loss and gradient 0.
  double count =
      static_cast<double>(std::max<int64_t>(data_.num_valid_tokens, 1));
  if (broken_ == Break::kLocalTokenCount) {
    int64_t mine = 0;
    for (const MicrobatchData& data : data_.microbatches) {
      mine += data.num_valid_tokens;
    }
    count = static_cast<double>(std::max<int64_t>(mine, 1));
  }
  return 1.0 / count;
}

void Trainer::break_running_sum(int microbatch) {
  if (broken_ == Break::kRescaleRunningSum && microbatch > 0) {
    gradients_->slice({0, gradients_->numel()}).mul_(0.5);
  }
  if (broken_ == Break::kLastMicrobatchOnly) {
    gradients_->zero();
  }
}

void Trainer::sum_gradients() {
  reducer_->finish();
  if (broken_ != Break::kSkipKvSum) {
    for (ParameterSlot* slot : trained_) {
      partial_.sum(slot->tensor.grad(), slot->layout);
    }
  }
  if (broken_ != Break::kUntie) {
    sum_tied_gradients();
  }
}

void Trainer::sum_tied_gradients() {
  Group* tied = mesh_.tied_stages();
  if (tied == nullptr || !config_.model.tie_word_embeddings) {
    return;
  }
  const std::string name =
      mesh_.is_first_stage() ? "embedding.weight" : "head.weight";
  for (ParameterSlot* slot : trained_) {
    if (slot->layout.name == name) {
      all_reduce(*tied, slot->tensor.grad());
    }
  }
}

double Trainer::owned_squares(const ParameterSlot& slot) const {
  const bool is_tied_copy = config_.model.tie_word_embeddings &&
                            !mesh_.is_first_stage() &&
                            slot.layout.name == "head.weight";
  return is_tied_copy ? 0
                      : owned_sum_of_squares(slot.tensor.grad(), slot.layout);
}

Trainer::StepSums Trainer::share_sums() {
  double owned = 0;
  for (const ParameterSlot* slot : trained_) {
    owned += owned_squares(*slot);
  }
  // Replicas hold equal sums by now, and tp ranks equal losses: one speaks.
  const bool is_first_replica = mesh_.coord().dp == 0;
  const bool has_loss = mesh_.is_last_stage() && mesh_.coord().tp == 0;
  const bool averages = broken_ == Break::kAverageNorms;
  std::array<double, 3> sums = {
      is_first_replica ? (averages ? std::sqrt(owned) : owned) : 0.0,
      has_loss ? loss_sum_ : 0.0,
      replica_squares_};
  sum_over(mesh_.world(), sums);
  StepSums result{.norm = std::sqrt(sums[0]), .loss = sums[1]};
  if (averages) {
    result.norm = sums[0] / (mesh_.dims().tp * mesh_.dims().pp);
  }
  if (broken_ == Break::kSkipNormReduction) {
    result.norm = std::sqrt(owned);
  }
  add_noise(sums[2], result.norm);
  return result;
}

bool Trainer::has_split_gradients() const {
  return (config_.model.tie_word_embeddings && mesh_.dims().pp > 1) ||
         config_.model.num_key_value_heads < mesh_.dims().tp;
}

void Trainer::add_noise(double replica_squares, double norm) {
  const double dp = mesh_.dims().dp;
  if (dp > 1 && !has_split_gradients()) {
    // A replica's gradient is its share of the sum, its mean dp times that;
    // then the mean over the replicas.
    const auto batch = static_cast<double>(config_.training.global_batch_size);
    noise_.add(batch / dp, replica_squares * dp, batch, norm * norm);
  }
}

void Trainer::require_finite(const StepSums& sums) const {
  const bool is_norm = !std::isfinite(sums.norm);
  if (is_norm || !std::isfinite(sums.loss)) {
    throw Error(is_norm ? "the gradient norm is " : "the loss is ",
                is_norm ? sums.norm : sums.loss,
                "; weights and optimizer state are as before this step. "
                "Lower optimizer.lr or set training.gradient_clipping");
  }
}

void Trainer::update(double lr, double norm) {
  const auto span = recorder_.span(EventKind::kOptimizer);
  optimizer_->step(lr, clip_factor(norm, config_.training.gradient_clipping));
}

std::optional<double> Trainer::gradient_noise_scale() const {
  return noise_.noise_scale();
}

double Trainer::validate() {
  TRIAX_CHECK(has_validation(), "no validation data");
  double sum = 0;
  double num_valid_tokens = 0;
  StageCalls calls = training_calls();
  StepData batch;
  calls.forward = [&](int microbatch, const at::Tensor& input) {
    const MicrobatchData& data = batch.microbatches[microbatch];
    const at::Tensor output = forward_stage(data, input, false);
    if (mesh_.is_last_stage()) {
      sum += stage_loss(data, output).negative_log_likelihood.item<double>();
    }
    return output;
  };
  Executor executor(my_actions(true), mesh_.group(Axis::kPp), calls, recorder_);
  for (int64_t i = 0; i < validation_->num_batches(); ++i) {
    batch = validation_->batch(i);
    num_valid_tokens += static_cast<double>(batch.num_valid_tokens);
    executor.run();
  }
  const bool has_loss = mesh_.is_last_stage() && mesh_.coord().tp == 0;
  sum = sum_over(mesh_.world(), has_loss ? sum : 0.0);
  return sum / std::max(num_valid_tokens, 1.0);
}

}  // namespace triax
