// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "triax/foreign/megatron.h"
#include "triax/foreign/megatron_arguments_view.h"

namespace triax {
namespace {

class FactReader {
 public:
  explicit FactReader(const ForeignConfig& config) : args_(config) {}

  RunFacts read() {
    facts_.system = System::kMegatron;
    facts_.file = args_.config().file;
    read_layout();
    read_batch();
    read_data_parallel();
    read_precision();
    read_pipeline();
    read_memory();
    read_model();
    read_training();
    return std::move(facts_);
  }

 private:
  const ForeignConfig& config() const { return args_.config(); }

  // What is given, or the parser's default, or nothing.
  Whole whole(const std::string& key) const {
    Whole fact = whole_at(config(), key);
    const std::optional<int64_t> value = args_.whole(key);
    return fact || !value || args_.is_set(key)
               ? fact
               : default_fact(config(), key, *value);
  }

  Real real(const std::string& key) const {
    Real fact = real_at(config(), key);
    const std::optional<double> value = args_.number(key);
    return fact || !value || args_.is_set(key)
               ? fact
               : default_fact(config(), key, *value);
  }

  Word word(const std::string& key) const {
    Word fact = word_at(config(), key);
    const std::optional<std::string> value = args_.text(key);
    return fact || !value || args_.is_set(key)
               ? fact
               : default_fact(config(), key, *value);
  }

  // A switch; `means`: what it says of the fact when it is on.
  Flag flag(const std::string& key, bool means = true) const {
    if (args_.is_on(key)) {
      const Flag fact = flag_at(config(), key);
      return {means, key, fact.position, false};
    }
    if (args_.is_off(key)) {
      return default_fact(config(), key, !means);
    }
    return {};
  }

  template <class T>
  Fact<T> from(const std::string& key, T value) const {
    const ConfigEntry* entry = find_entry(config().table, key);
    if (entry == nullptr) {
      return default_fact(config(), key, std::move(value));
    }
    return {std::move(value), key, entry->value.position, false};
  }

  void read_layout() {
    facts_.world = whole_at(config(), "launch.world");
    facts_.world.is_default =
        flag_at(config(), "launch.world-is-a-setting").value_or(false);
    facts_.tp = whole("tensor-model-parallel-size");
    facts_.pp = whole("pipeline-model-parallel-size");
    facts_.cp = whole("context-parallel-size");
    facts_.ep = whole("expert-model-parallel-size");
    facts_.expert_tp = whole("expert-tensor-parallel-size");
    facts_.sequence_parallel = flag("sequence-parallel");
    facts_.dp_includes_cp =
        default_fact(config(), "context-parallel-size", true);
  }

  void read_batch() {
    facts_.microbatch = whole("micro-batch-size");
    facts_.global_batch = whole("global-batch-size");
    if (args_.is_set("step-batch-size-schedule")) {
      facts_.has_batch_ramp = from("step-batch-size-schedule", true);
    } else if (args_.is_set("rampup-batch-size")) {
      facts_.has_batch_ramp = from("rampup-batch-size", true);
    }
  }

  void read_data_parallel() {
    if (args_.is_on("use-torch-fsdp2")) {
      const bool keeps = args_.is_on("torch-fsdp2-no-reshard-after-forward");
      facts_.zero_stage = from<int64_t>("use-torch-fsdp2", keeps ? 2 : 3);
    } else if (args_.is_on("use-megatron-fsdp")) {
      read_megatron_fsdp();
    } else if (args_.is_on("use-distributed-optimizer")) {
      facts_.zero_stage = from<int64_t>("use-distributed-optimizer", 1);
    } else if (args_.is_off("use-distributed-optimizer") &&
               !args_.is_deepspeed()) {
      facts_.zero_stage =
          default_fact<int64_t>(config(), "use-distributed-optimizer", 0);
    } else if (args_.is_deepspeed()) {
      facts_.zero_stage = whole_at(config(), "zero-stage");
    }
    if (args_.is_on("optimizer-cpu-offload")) {
      facts_.offload_optimizer =
          from<std::string>("optimizer-cpu-offload", "cpu");
    }
    facts_.bucket_elements = whole("ddp-bucket-size");
    facts_.overlap_reduce = flag("overlap-grad-reduce");
    facts_.overlap_gather = flag("overlap-param-gather");
  }

  void read_megatron_fsdp() {
    const Word strategy = word("data-parallel-sharding-strategy");
    if (strategy) {
      const int64_t stage = *strategy == "no_shard"      ? 0
                            : *strategy == "optim"       ? 1
                            : *strategy == "optim_grads" ? 2
                                                         : 3;
      facts_.zero_stage = from("use-megatron-fsdp", stage);
    }
  }

  void read_precision() {
    if (args_.is_set("fp8-format")) {
      facts_.precision = from<std::string>("fp8-format", "fp8");
    } else if (args_.is_on("bf16")) {
      facts_.precision = from<std::string>("bf16", "bf16");
    } else if (args_.is_on("fp16")) {
      facts_.precision = from<std::string>("fp16", "fp16");
    } else if (args_.is_off("bf16") && args_.is_off("fp16")) {
      facts_.precision = default_fact<std::string>(config(), "bf16", "fp32");
    }
    facts_.loss_scale = real_at(config(), "loss-scale");
    if (args_.is_on("grad-reduce-in-bf16")) {
      facts_.reduce_dtype = from<std::string>("grad-reduce-in-bf16", "bf16");
    }
  }

  void read_pipeline() {
    facts_.chunks = whole("num-virtual-stages-per-pipeline-rank");
    facts_.layers_per_chunk = whole("num-layers-per-virtual-pipeline-stage");
    facts_.first_stage_layers = whole("decoder-first-pipeline-num-layers");
    facts_.last_stage_layers = whole("decoder-last-pipeline-num-layers");
    for (const char* key : {"pipeline-model-parallel-layout",
                            "hybrid-layer-pattern",
                            "hybrid-override-pattern",
                            "account-for-embedding-in-pipeline-split",
                            "account-for-loss-in-pipeline-split",
                            "decoder-num-layers",
                            "pp-partition-method",
                            "standalone-embedding-stage"}) {
      if (args_.is_set(key)) {
        facts_.has_custom_stages = from(key, true);
        return;
      }
    }
    const bool is_interleaved = facts_.chunks || facts_.layers_per_chunk;
    if (is_interleaved) {
      facts_.schedule = from<std::string>(
          facts_.chunks ? facts_.chunks.key : facts_.layers_per_chunk.key,
          "interleaved");
    } else if (args_.is_off("num-virtual-stages-per-pipeline-rank") &&
               args_.is_off("num-layers-per-virtual-pipeline-stage")) {
      facts_.schedule = default_fact<std::string>(
          config(), "pipeline-model-parallel-size", "1f1b");
    }
  }

  void read_memory() {
    if (args_.is_on("recompute-activations")) {
      facts_.recompute =
          from<std::string>("recompute-activations", "selective");
    } else if (args_.is_set("recompute-granularity")) {
      facts_.recompute = word("recompute-granularity");
    } else if (args_.is_off("recompute-granularity") &&
               args_.is_off("checkpoint-activations")) {
      facts_.recompute =
          default_fact<std::string>(config(), "recompute-granularity", "none");
    }
    facts_.recompute_splits_tp = flag("distribute-saved-activations");
  }

  void read_model() {
    facts_.layers = whole("num-layers");
    if (!facts_.layers) {
      facts_.layers = whole_at(config(), "encoder-num-layers");
    }
    facts_.hidden = whole("hidden-size");
    facts_.heads = whole("num-attention-heads");
    facts_.ffn = whole("ffn-hidden-size");
    facts_.head_dim = whole("kv-channels");
    if (args_.is_on("group-query-attention")) {
      facts_.kv_heads = whole("num-query-groups");
    } else if (args_.is_off("group-query-attention") && facts_.heads &&
               !args_.is_deepspeed()) {
      facts_.kv_heads =
          default_fact(config(), "group-query-attention", *facts_.heads);
    }
    facts_.vocabulary = whole_at(config(), "vocab-size");
    if (args_.is_on("no-pad-vocab-size")) {
      facts_.vocabulary_multiple = from<int64_t>("no-pad-vocab-size", 1);
    } else {
      facts_.vocabulary_multiple = whole("make-vocab-size-divisible-by");
    }
    facts_.experts = whole("num-experts");
    facts_.sequence = whole("seq-length");
    facts_.max_positions = whole("max-position-embeddings");
    facts_.tied = flag("untie-embeddings-and-output-weights", false);
    read_layer_kind();
  }

  void read_layer_kind() {
    facts_.gated = flag("swiglu");
    facts_.activation =
        args_.is_on("swiglu") ? from<std::string>("swiglu", "silu")
        : args_.is_on("squared-relu")
            ? from<std::string>("squared-relu", "relu2")
        : args_.is_off("swiglu")
            ? default_fact<std::string>(config(), "swiglu", "gelu")
            : Word();
    facts_.norm = word("normalization");
    const bool has_rope = args_.is_on("use-rotary-position-embeddings");
    const Word kind = word("position-embedding-type");
    if (has_rope) {
      facts_.learned_positions = from("use-rotary-position-embeddings", false);
    } else if (kind) {
      facts_.learned_positions = {*kind == "learned_absolute",
                                  kind.key,
                                  kind.position,
                                  kind.is_default};
    }
  }

  void read_training() {
    facts_.optimizer = word("optimizer");
    facts_.lr = real("lr");
    facts_.min_lr = real("min-lr");
    facts_.weight_decay = real("weight-decay");
    facts_.clipping = real("clip-grad");
    facts_.beta1 = real("adam-beta1");
    facts_.beta2 = real("adam-beta2");
    facts_.adam_eps = real("adam-eps");
    facts_.lr_schedule = word("lr-decay-style");
    facts_.steps = whole_at(config(), "train-iters");
    facts_.samples = whole_at(config(), "train-samples");
    facts_.warmup_steps = whole_at(config(), "lr-warmup-iters");
    facts_.decay_steps = whole_at(config(), "lr-decay-iters");
    facts_.seed = whole("seed");
    facts_.profiles = flag("profile");
  }

  MegatronArguments args_;
  RunFacts facts_;
};

}  // namespace

RunFacts megatron_facts(const ForeignConfig& config) {
  return FactReader(config).read();
}

}  // namespace triax
