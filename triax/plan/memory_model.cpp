// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/memory_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/base/units.h"
#include "triax/plan/model_stats.h"
#include "triax/plan/offload.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"
#include "triax/plan/zero_stages.h"
#include "triax/schedule/proof.h"
#include "triax/schedule/schedule.h"

namespace triax {

namespace {

/// Bytes of an element of weights and the residual stream, of what the matrix
/// products read and write, and of gradients, the optimizer's state and the
/// statistics of a row.
struct ElementBytes {
  int64_t weight = 4;
  int64_t product = 4;
  int64_t master = 4;
};

ElementBytes element_bytes(Precision precision) {
  const int64_t stored = dtype_bytes(parameter_dtype(precision));
  return {.weight = stored,
          .product = precision == Precision::kBf16Autocast ? 2 : stored,
          .master = dtype_bytes(master_dtype(precision))};
}

/// Counts the bytes of one stage.
class StageCount {
 public:
  StageCount(const RunConfig& config, int pp_rank, const ModelPart& part)
      : config_(config),
        model_(config.model),
        part_(part),
        is_llama_(config.model.family == ModelFamily::kLlama),
        is_last_(pp_rank == config.parallel.pp - 1),
        tp_(config.parallel.tp),
        size_(element_bytes(config.training.precision)),
        tokens_(config.training.microbatch_size * config.data.sequence_length),
        layouts_(parameter_layouts(model_, part, tp_, tp_ - 1)),
        num_live_(peak_live_microbatches(make_schedule(
            config.parallel.schedule,
            config.parallel.pp,
            static_cast<int>(config.num_microbatches()))[pp_rank])) {}

  StageMemory count() {
    StageMemory memory = {
        .part = part_, .num_live_microbatches = num_live_, .lines = {}};
    if (offloaded_states(config_).activations) {
      memory.activation_offload = plan_activation_offload(
          (activations().nbytes + logits(num_live_).nbytes) / num_live_,
          num_live_,
          part_.num_layers);
    }
    add_states(memory.lines);
    move_offloaded(memory.lines);
    memory.lines.push_back(memory.activation_offload
                               ? left_in_memory(*memory.activation_offload)
                               : activations());
    if (group_layers() > 0) {
      memory.lines.push_back(recomputed());
    }
    memory.lines.push_back(logits(memory.activation_offload ? 1 : num_live_));
    memory.lines.push_back(pipeline());
    memory.lines.push_back(working());
    return memory;
  }

 private:
  void add_states(std::vector<MemoryLine>& lines) const {
    const StoredCount stored = count_stored(layouts_);
    const StateBytesOfRank bytes = state_bytes_of_rank(config_, layouts_);
    const int shards = num_shards(config_.parallel);
    const bool is_sharded = splits_gradients(config_.parallel);
    const std::string share = shards > 1 ? fmt::format(" / {}", shards) : "";
    const bool has_units = splits_parameters(config_.parallel);
    const int64_t elements =
        (stored.num_stored - stored.num_padding) / (has_units ? shards : 1);
    lines.push_back({MemoryKind::kParameters,
                     bytes.parameters,
                     fmt::format("{} B x elements{}, at most {} of padding",
                                 size_.weight,
                                 has_units ? share : "",
                                 format_count(bytes.parameters / size_.weight -
                                              elements))});
    if (has_units) {
      lines.push_back(
          {MemoryKind::kGathered, bytes.gathered, gathered_formula()});
    }
    lines.push_back(
        {MemoryKind::kGradients,
         bytes.gradients,
         fmt::format("{} B x elements{}, {} of padding",
                     size_.master,
                     is_sharded ? share : "",
                     format_count(bytes.gradient_padding / size_.master))});
    if (bytes.buckets > 0) {
      lines.push_back(
          {MemoryKind::kBuckets, bytes.buckets, bucket_formula(bytes)});
    }
    lines.push_back(
        {MemoryKind::kOptimizer,
         bytes.optimizer,
         fmt::format("{} ({}{} x {} B) x elements{}",
                     config_.optimizer.name,
                     size_.master == size_.weight ? "" : "master + ",
                     config_.optimizer.num_states(),
                     size_.master,
                     share)});
  }

  static std::string bucket_formula(const StateBytesOfRank& bytes) {
    std::vector<std::string> parts;
    if (bytes.num_blocks > 0) {
      parts.push_back(fmt::format("{} x the largest bucket, {}",
                                  bytes.num_blocks,
                                  format_bytes(bytes.largest_bucket)));
    }
    if (bytes.num_copies > 0) {
      parts.push_back(fmt::format("{} x its copy to send, {}",
                                  bytes.num_copies,
                                  format_bytes(bytes.copy_bytes)));
    }
    return fmt::format("{}", fmt::join(parts, " + "));
  }

  /// What lies on file of the states that add_states() counted.
  void move_offloaded(std::vector<MemoryLine>& lines) const {
    // Every stage has the same lines.
    if (!offloaded_states(config_).any_of_shard()) {
      return;
    }
    // Ranks of tp store equal shapes; the first one has no padding alone, of
    // which no pattern could say whether it is frozen.
    const std::vector<ParameterLayout> layouts =
        parameter_layouts(model_, part_, tp_, 0);
    const SpilledBytes spilled = spilled_bytes_of_rank(config_, layouts);
    for (MemoryLine& line : lines) {
      line.disk_bytes = bytes_of(spilled, line.kind);
      if (line.disk_bytes > 0) {
        line.nbytes = 0;
        line.formula = fmt::format("{} on disk", format_bytes(line.disk_bytes));
      }
    }
    lines.push_back(
        {MemoryKind::kWindows,
         spill_buffer_bytes(config_, layouts),
         fmt::format("of what is on disk: at most {} of {} elements "
                     "in an update, or {} parts of gradients and {} of "
                     "units",
                     kSpillWindows,
                     format_count(kSpillWindowElements),
                     kMaxGradientParts,
                     2 + config_.parallel.prefetch)});
  }

  static int64_t bytes_of(const SpilledBytes& spilled, MemoryKind kind) {
    switch (kind) {
      case MemoryKind::kParameters:
        return spilled.parameters;
      case MemoryKind::kGradients:
        return spilled.gradients;
      case MemoryKind::kOptimizer:
        return spilled.optimizer;
      default:
        return 0;
    }
  }

  std::string gathered_formula() const {
    if (!config_.parallel.reshard_after_forward) {
      return "all units, from their first use to the last backward";
    }
    const int units = 1 + config_.parallel.prefetch;
    return units == 1 ? "the largest unit"
                      : fmt::format("{} units that follow each other", units);
  }

  MemoryLine activations() const {
    if (group_layers() > 0) {
      const int64_t groups = divide_up(part_.num_layers, group_layers());
      return {MemoryKind::kActivations,
              num_live_ * (groups * stream_bytes() + end_bytes()),
              fmt::format("live microbatches x (groups of {} x {} + {})",
                          counted(group_layers(), "layer"),
                          format_bytes(stream_bytes()),
                          format_bytes(end_bytes()))};
    }
    const int64_t each = part_.num_layers * layer_bytes() + end_bytes();
    return {MemoryKind::kActivations,
            num_live_ * each,
            fmt::format("live microbatches x (layers x {} + {})",
                        format_bytes(layer_bytes()),
                        format_bytes(end_bytes()))};
  }

  /// Of activations that move to a file.
  MemoryLine left_in_memory(const ActivationOffload& offload) const {
    const int64_t buffers =
        ActivationOffload::kNumBuffers * offload.buffer_bytes;
    const int64_t inputs = part_.has_embedding ? 0 : num_live_ * stream_bytes();
    return {MemoryKind::kActivations,
            2 * offload.window_bytes + buffers + 2 * widest_kept() + inputs,
            fmt::format("2 windows of {} + {} of buffers + 2 x widest {} + "
                        "inputs {}; {} in a file",
                        format_bytes(offload.window_bytes),
                        format_bytes(buffers),
                        format_bytes(widest_kept()),
                        format_bytes(inputs),
                        format_bytes(offload.file_bytes())),
            offload.file_bytes()};
  }

  /// Of what a microbatch keeps in one piece, the logits apart.
  int64_t widest_kept() const {
    if (group_layers() > 0) {
      return stream_bytes();
    }
    const int64_t heads = local_heads(model_, tp_);
    const int64_t F = shard_range(model_.intermediate_size, tp_, 0).length;
    const int64_t qkv =
        (heads + 2 * local_key_value_heads(model_, tp_)) * model_.head_dim;
    const int64_t probabilities = model_.attn_pdrop > 0.0 && !is_selective()
                                      ? heads * config_.data.sequence_length
                                      : 0;
    const int64_t widest =
        std::max({qkv, (is_llama_ ? 2 : 1) * F, probabilities});
    return std::max(tokens_ * size_.product * widest, stream_bytes());
  }

  /// What the group of layers keeps whose backward runs.
  MemoryLine recomputed() const {
    const int64_t layers = std::min<int64_t>(group_layers(), part_.num_layers);
    return {
        MemoryKind::kRecomputed,
        layers * layer_bytes(),
        fmt::format("layers of one group x {}", format_bytes(layer_bytes()))};
  }

  /// Layers whose input alone is kept; 0 where more is.
  int64_t group_layers() const {
    return config_.memory.layers_of_a_kept_input();
  }

  bool is_selective() const {
    return config_.memory.recompute == Recompute::kSelective;
  }

  /// The residual stream of a microbatch.
  int64_t stream_bytes() const {
    return tokens_ * model_.hidden_size / sequence_shares() * size_.weight;
  }

  /// What a layer keeps: norms their input, products their input, attention
  /// q, k, v and a number a row, the activation function its input.
  int64_t layer_bytes() const {
    const int64_t H = model_.hidden_size;
    const int64_t heads = local_heads(model_, tp_);
    const int64_t kv_heads = local_key_value_heads(model_, tp_);
    const int64_t F = shard_range(model_.intermediate_size, tp_, 0).length;
    const int64_t inputs = is_selective() ? 0 : 2 * H / sequence_shares();
    const int64_t attention = (2 * heads + 2 * kv_heads) * model_.head_dim;
    const int64_t products = (is_llama_ ? 2 : 1) * F;
    const int64_t feed_forward = products + (is_selective() ? 0 : F);
    return 2 * norm_bytes() + tokens_ * size_.master * heads +
           tokens_ * size_.product * (inputs + attention + feed_forward) +
           dropout_bytes(heads);
  }

  /// A norm keeps its input and numbers for each row.
  int64_t norm_bytes() const {
    return tokens_ / sequence_shares() *
           (model_.hidden_size * size_.weight +
            num_statistics() * size_.master);
  }

  /// One byte an element that may be dropped; attention keeps probabilities.
  int64_t dropout_bytes(int64_t heads) const {
    int64_t nbytes = 0;
    if (model_.resid_pdrop > 0.0) {
      nbytes += 2 * tokens_ * model_.hidden_size / sequence_shares();
    }
    if (model_.attn_pdrop > 0.0 && !is_selective()) {
      nbytes +=
          tokens_ * config_.data.sequence_length * heads * (size_.product + 1);
    }
    return nbytes;
  }

  /// What stands before and after the layers, without the logits.
  int64_t end_bytes() const {
    int64_t nbytes = 0;
    const int64_t H = model_.hidden_size;
    if (part_.has_embedding) {
      nbytes += tokens_ * static_cast<int64_t>(sizeof(int64_t));
      nbytes += model_.embd_pdrop > 0.0 ? tokens_ * H / sequence_shares() : 0;
    }
    if (part_.has_head) {
      nbytes += norm_bytes() + tokens_ * H / sequence_shares() * size_.product;
    }
    return nbytes;
  }

  MemoryLine logits(int num_microbatches) const {
    const int64_t each = logits_bytes() + tokens_ * size_.master;
    return {MemoryKind::kLogits,
            part_.has_head ? num_microbatches * each : 0,
            fmt::format("last stage: {} x s b V/tp x {} B",
                        num_microbatches == num_live_ ? "live microbatches"
                                                      : "the newest",
                        size_.product)};
  }

  int64_t logits_bytes() const {
    return tokens_ * size_.product *
           vocab_range(model_.vocab_size, tp_, 0).num_stored;
  }

  /// Each live microbatch's output; one gradient that came, one that goes.
  MemoryLine pipeline() const {
    const int64_t message = stream_bytes();
    const int64_t outputs = is_last_ ? 0 : num_live_ + 1;
    const int64_t sent_gradients = part_.has_embedding ? 0 : 1;
    return {MemoryKind::kPipeline,
            (outputs + sent_gradients) * message,
            fmt::format("messages of {}", format_bytes(message))};
  }

  MemoryLine working() const {
    int64_t largest_weight = 0;
    for (const ParameterLayout& layout : layouts_) {
      largest_weight = std::max(largest_weight, layout.numel());
    }
    const int64_t F = shard_range(model_.intermediate_size, tp_, 0).length;
    const int64_t up_gradients =
        tokens_ * (is_llama_ ? 3 : 2) * F * size_.product;
    const int64_t widest =
        std::max(up_gradients, part_.has_head ? logits_bytes() : 0);
    const int64_t cast = size_.product == size_.master ? 0 : size_.product;
    return {MemoryKind::kWorking,
            largest_weight * (size_.master + cast) + widest,
            "largest weight's gradient, widest activation's gradient"};
  }

  int64_t num_statistics() const { return is_llama_ ? 1 : 2; }

  /// Ranks that split the residual stream among them.
  int64_t sequence_shares() const { return config_.sequence_shares(); }

  const RunConfig& config_;
  const ModelConfig& model_;
  const ModelPart part_;
  const bool is_llama_;
  const bool is_last_;
  const int tp_;
  const ElementBytes size_;
  const int64_t tokens_;
  const std::vector<ParameterLayout> layouts_;
  const int num_live_;
};

}  // namespace

std::vector<StageMemory> predict_memory(const RunConfig& config) {
  std::vector<StageMemory> stages;
  for (const ModelPart& part : split_stages(config.model, config.parallel)) {
    const int pp_rank = static_cast<int>(stages.size());
    stages.push_back(StageCount(config, pp_rank, part).count());
  }
  return stages;
}

double zero_model_state_bytes(double num_parameters,
                              int zero_stage,
                              int dp,
                              const StateBytes& bytes) {
  TRIAX_CHECK(zero_stage >= 0 && zero_stage <= 3 && dp >= 1,
              "zero ",
              zero_stage,
              ", dp ",
              dp);
  const auto share = [&](int first_stage) {
    return zero_stage >= first_stage ? 1.0 / dp : 1.0;
  };
  return num_parameters * (bytes.weight * share(3) + bytes.gradient * share(2) +
                           bytes.optimizer * share(1));
}

}  // namespace triax
