// SPDX-License-Identifier: Apache-2.0
#include "triax/train/trainer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "triax/base/error.h"
#include "triax/data_parallel/grad_norm.h"
#include "triax/mesh/tensor_group.h"
#include "triax/optim/lr_schedule.h"
#include "triax/plan/zero_stages.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"
#include "triax/train/activation_offload.h"
#include "triax/train/broken_update.h"
#include "triax/train/divergence.h"

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
      rank_model_(place_rank_model(config, mesh, options.broken)),
      trained_(config, mesh, rank_model_, options.broken),
      loss_scale_(config.training),
      activation_file_(make_activation_file(config, mesh, rank_model_)) {
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
    std::optional<ActivationFileScope> saved;
    if (activation_file_) {
      saved.emplace(*activation_file_, microbatch);
    }
    return forward(microbatch, input);
  };
  calls.make_activation = [this](int) {
    return at::empty(
        {config_.training.microbatch_size,
         config_.data.sequence_length / config_.sequence_shares(),
         config_.model.hidden_size},
        to_scalar_type(parameter_dtype(config_.training.precision)));
  };
  calls.before_backward = [this](int microbatch, bool is_last) {
    if (activation_file_) {
      activation_file_->begin_backward(microbatch);
    }
    if (microbatch > 0 && on_partial_gradients) {
      on_partial_gradients();
    }
    trained_.before_backward(microbatch, is_last);
  };
  calls.after_backward = [this] { trained_.after_backward(); };
  return calls;
}

StepStats Trainer::step() {
  StepStats stats;
  guard([&] {
    {
      const auto span = recorder_.span(EventKind::kData);
      data_ = loader_->next();
    }
    stats = run_step();
  });
  return stats;
}

StepStats Trainer::repeat_step() {
  TRIAX_CHECK(steps_done_ > 0, "there is no step to repeat");
  const LossScale scale = loss_scale_;
  --steps_done_;
  StepStats stats;
  guard([&] { stats = run_step(); });
  loss_scale_ = scale;
  return stats;
}

void Trainer::guard(const std::function<void()>& call) {
  if (!failure_.empty()) {
    throw Error(
        "this trainer's last step or forward pass ended halfway (",
        failure_,
        "), so its gradients, messages and files are of no use; make another "
        "trainer");
  }
  is_underway_ = true;
  try {
    with_cause(call);
  } catch (const std::exception& error) {
    if (is_underway_) {
      failure_ = error.what();
    }
    if (on_failure_) {
      on_failure_(error);
    }
    throw;
  }
  is_underway_ = false;
}

void Trainer::with_cause(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception&) {
    trained_.rethrow_failure();
    throw;
  }
}

void Trainer::forward_pass(const std::function<void()>& call) {
  guard([&] {
    trained_.begin_forward_pass();
    call();
    trained_.end_forward_pass();
  });
}

void Trainer::with_whole_weights(const std::function<void()>& call) {
  trained_.gather_parameters();
  try {
    call();
  } catch (...) {
    trained_.release_parameters();
    throw;
  }
  trained_.release_parameters();
}

StepStats Trainer::run_step() {
  run_microbatches();
  trained_.sum();
  if (on_gradients) {
    trained_.gather_gradients();
    on_gradients();
    trained_.release_gradients();
  }
  const StepSums sums = share_sums();
  const double lr = learning_rate(
      config_.optimizer, config_.training.steps, trained_.num_updates());
  const double scale = loss_scale_.value();
  const bool is_skipped = loss_scale_.is_dynamic() && !sums.is_finite;
  is_underway_ = false;  // all ranks know the same, and nothing has changed
  if (is_skipped) {
    require_scale_left(sums);
    loss_scale_.add_overflow();
  } else {
    require_finite(sums);
    is_underway_ = true;
    update(lr, sums.norm);
    last_lr_ = lr;
    loss_scale_.add_good_step();
  }
  ++steps_done_;
  const auto count = std::max<int64_t>(data_.num_valid_tokens, 1);
  return {.step = steps_done_,
          .loss = sums.loss / static_cast<double>(count),
          .grad_norm = sums.norm,
          .lr = lr,
          .num_valid_tokens = data_.num_valid_tokens,
          .loss_scale = scale,
          .is_skipped = is_skipped,
          .num_skipped = loss_scale_.num_overflows()};
}

void Trainer::run_microbatches() {
  trained_.begin_step();
  loss_sum_ = 0;
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
  return loss * (loss_weight() * loss_scale_.value());
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

double Trainer::loss_weight() const {
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

Trainer::StepSums Trainer::share_sums() {
  // Ranks with equal sums and equal losses: one speaks for all.
  const bool has_loss = mesh_.is_last_stage() && mesh_.coord().tp == 0;
  const bool averages = broken_ == Break::kAverageNorms;
  const bool is_alone = broken_ == Break::kSkipNormReduction;
  const ExactSum owned = trained_.counts_squares() || is_alone
                             ? trained_.owned_squares()
                             : ExactSum();
  std::array<ExactSum, 4> sums = {owned, {}, trained_.part_squares(), {}};
  if (averages) {
    sums[0] = {};
    sums[0].add(std::sqrt(owned.value()));
  }
  sums[1].add(has_loss ? loss_sum_ : 0.0);
  // Where an overflow is skipped, all must see it: a gradient that overflowed
  // on one rank alone may be one whose squares another rank counts.
  const bool is_alert = loss_scale_.is_dynamic();
  if (is_alert && !trained_.has_finite_gradients()) {
    sums[3].add(1.0);
  }
  sum_over(mesh_.world(), std::span(sums).first(is_alert ? 4 : 3));
  StepSums result{.norm = std::sqrt(sums[0].value()), .loss = sums[1].value()};
  if (averages) {
    result.norm = sums[0].value() / (mesh_.dims().tp * mesh_.dims().pp *
                                     num_shards(config_.parallel));
  }
  if (is_alone) {
    result.norm = std::sqrt(owned.value());
  }
  const double scale = loss_scale_.value();
  result.norm /= scale;
  result.is_finite = std::isfinite(result.norm) && std::isfinite(result.loss) &&
                     sums[3].value() == 0.0;
  if (result.is_finite || !is_alert) {
    add_noise(sums[2].value() / (scale * scale), result.norm);
  }
  return result;
}

void Trainer::add_noise(double part_squares, double norm) {
  const auto num_parts = static_cast<double>(trained_.num_parts());
  if (num_parts > 0) {
    // A part's gradient is its share of the sum, its mean num_parts times that;
    // then the mean over the parts.
    const auto batch = static_cast<double>(config_.training.global_batch_size);
    noise_.add(batch / num_parts, part_squares * num_parts, batch, norm * norm);
  }
}

void Trainer::require_finite(const StepSums& sums) const {
  const bool is_norm = !std::isfinite(sums.norm);
  if (is_norm || !std::isfinite(sums.loss)) {
    throw Error(is_norm ? "the gradient norm is " : "the loss is ",
                is_norm ? sums.norm : sums.loss,
                "; weights and optimizer state are as before this step. ",
                divergence_advice(config_, steps_done_, last_lr_));
  }
}

void Trainer::require_scale_left(const StepSums& sums) const {
  if (!loss_scale_.is_at_minimum()) {
    return;
  }
  const std::string what =
      std::isfinite(sums.loss)
          ? detail::join(
                "gradients overflow fp16 even at "
                "training.min_loss_scale = ",
                config_.training.min_loss_scale)
          : detail::join("the loss is ",
                         sums.loss,
                         ": activations overflow fp16, whose largest number is "
                         "65504, and no loss scale mends that");
  throw Error(what,
              "; ",
              loss_scale_.num_in_a_row(),
              " steps in a row were skipped before this one, weights and "
              "optimizer state are as before them. Use training.precision = "
              "\"bf16\", or lower optimizer.lr or training.gradient_clipping");
}

void Trainer::update(double lr, double norm) {
  const auto span = recorder_.span(EventKind::kOptimizer);
  double scale = clip_factor(norm, config_.training.gradient_clipping);
  if (broken_ == Break::kSkipClipping) {
    has_broken_ |= scale != 1.0;
    scale = mesh_.is_last_stage() ? 1.0 : scale;
  }
  trained_.update(lr, scale / loss_scale_.value());
  break_weights(lr);
}

void Trainer::break_weights(double lr) {
  if (broken_ == Break::kMoveFrozen) {
    move_frozen(rank_model_, lr);
  }
  if (broken_ == Break::kMoveUnusedRow && mesh_.is_first_stage()) {
    has_broken_ |= move_unused_row(rank_model_,
                                   data_,
                                   config_.model.vocab_size,
                                   mesh_.group(Axis::kDp),
                                   lr);
  }
}

bool Trainer::has_broken() const {
  const bool needs_data =
      broken_ == Break::kSkipClipping || broken_ == Break::kMoveUnusedRow;
  return has_broken_ || (!needs_data && broken_ != Break::kNone);
}

OffloadUse Trainer::offload_use() const {
  OffloadUse use;
  if (const OffloadedShard* shard = trained_.offloaded()) {
    use = {shard->nbytes(), shard->moved()};
  }
  if (activation_file_) {
    const IoBytes moved = activation_file_->file().moved();
    use.file_bytes += activation_file_->file_bytes();
    use.moved.read += moved.read;
    use.moved.written += moved.written;
  }
  return use;
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
    forward_pass([&] { executor.run(); });
  }
  const bool has_loss = mesh_.is_last_stage() && mesh_.coord().tp == 0;
  sum = sum_over(mesh_.world(), has_loss ? sum : 0.0);
  return sum / std::max(num_valid_tokens, 1.0);
}

}  // namespace triax
