// SPDX-License-Identifier: Apache-2.0
// What RunFacts has no member for, in each system's own words.
#include <algorithm>
#include <cmath>

#include "triax/config/run_config.h"
#include "triax/foreign/megatron_arguments_view.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/torchtitan.h"
#include "triax/foreign/translate_source.h"

namespace triax {
namespace {

using Keys = std::vector<std::string>;

class MoreFacts {
 public:
  MoreFacts(const ForeignConfig& config, const RunFacts& facts)
      : config_(config), facts_(facts) {}

  std::vector<NamedFact> read() {
    switch (config_.system) {
      case System::kDeepSpeed:
        read_deepspeed();
        break;
      case System::kMegatron:
        read_megatron();
        break;
      case System::kTorchTitan:
        read_torchtitan();
        break;
      case System::kNanotron:
        read_nanotron();
        break;
      case System::kTriax:
        break;
    }
    return std::move(named_);
  }

 private:
  void add(const char* name, Json value, Keys keys, bool is_default) {
    named_.push_back({name, std::move(value), std::move(keys), is_default});
  }

  template <class T>
  void add(const char* name, const Fact<T>& fact) {
    const Json value = fact ? Json(*fact) : Json();
    if (fact && (!value.is_number() || std::isfinite(value.get<double>()))) {
      add(name, value, {fact.key}, fact.is_default);
    }
  }

  // How the optimizer takes weight decay: FusedAdam and CPUAdam decouple it
  // unless "Adam" has adam_w_mode off (engine.py,
  // _configure_basic_optimizer).
  void read_deepspeed() {
    if (facts_.optimizer &&
        (*facts_.optimizer == "adam" || *facts_.optimizer == "adamw")) {
      const Flag mode = flag_at(config_, "optimizer.params.adam_w_mode");
      const bool is_decoupled =
          *facts_.optimizer == "adamw" || mode.value_or(true);
      Keys keys = {facts_.optimizer.key};
      if (mode) {
        keys.push_back(mode.key);
      }
      add("decoupled_decay", is_decoupled, keys, false);
    }
    add_adam_defaults();
    if (is_fp16()) {
      const std::string fp16 = "fp16.";
      const Whole power = whole_at(config_, fp16 + "initial_scale_power");
      if (power && *power >= 0 && *power <= 32) {
        add("initial_loss_scale", std::exp2(*power), {power.key}, false);
      }
      add("min_loss_scale", real_at(config_, fp16 + "min_loss_scale"));
      add("loss_scale_window", whole_at(config_, fp16 + "loss_scale_window"));
    }
    add_offload_dir();
    const bool is_cosine = facts_.lr_schedule.value_or("") == "WarmupCosineLR";
    const Real ratio = real_at(config_, "scheduler.params.cos_min_ratio");
    if (is_cosine && facts_.lr) {
      add("min_lr",
          ratio.value_or(0.0001) * *facts_.lr,
          {"scheduler.params.cos_min_ratio"},
          !ratio);
    }
    add("decay_end", facts_.decay_steps);
    read_warmup();
  }

  // One folder; another one of the parameters is left to its key.
  void add_offload_dir() {
    const std::string zero = "zero_optimization.";
    const std::pair<const Word*, std::string> sections[] = {
        {&facts_.offload_optimizer, "offload_optimizer"},
        {&facts_.offload_parameters, "offload_param"}};
    NamedFact dir{"offload_dir", nullptr, {}};
    for (const auto& [device, section] : sections) {
      const Word path = word_at(config_, zero + section + ".nvme_path");
      if (device->value_or("") == "nvme" && path &&
          (dir.keys.empty() || dir.value == Json(*path))) {
        dir.value = *path;
        dir.keys.push_back(path.key);
      }
    }
    if (!dir.keys.empty()) {
      named_.push_back(std::move(dir));
    }
  }

  // Its own schedules rise by the logarithm unless warmup_type says linear.
  void read_warmup() {
    const std::string params = "scheduler.params.";
    const std::string schedule = facts_.lr_schedule.value_or("");
    const bool is_own = schedule == "WarmupLR" || schedule == "WarmupDecayLR" ||
                        schedule == "WarmupCosineLR";
    const Word type = word_at(config_, params + "warmup_type");
    if (!is_own) {
      return;
    }
    if (find_value(config_.table, params + "warmup_num_steps") == nullptr) {
      add("warmup_steps", 1000, {params + "warmup_num_steps"}, true);
    }
    if (type.value_or("") != "linear" && type.value_or("") != "auto") {
      add("warmup_shape", "log", {params + "warmup_type"}, !type);
    }
  }

  // Those of FusedAdam and CPUAdam, where nobody says the number.
  void add_adam_defaults() {
    const std::string params = "optimizer.params.";
    const bool is_own =
        facts_.optimizer &&
        (*facts_.optimizer == "adam" || *facts_.optimizer == "adamw") &&
        !flag_at(config_, params + "torch_adam").value_or(false);
    const auto usual = [&](const char* name, const char* key, double value) {
      if (is_own && find_value(config_.table, params + key) == nullptr) {
        add(name, value, {params + key}, true);
      }
    };
    usual("lr", "lr", 1e-3);
    usual("weight_decay", "weight_decay", 0.0);
    usual("beta1", "betas", 0.9);
    usual("beta2", "betas", 0.999);
    usual("adam_eps", "eps", 1e-8);
  }

  bool is_fp16() const {
    return facts_.precision && *facts_.precision == "fp16";
  }

  // Its OptimizerConfig.decoupled_weight_decay is on, and no argument says
  // otherwise.
  void read_megatron() {
    const MegatronArguments args(config_);
    if (facts_.optimizer && *facts_.optimizer == "adam") {
      add("decoupled_decay", true, {}, facts_.optimizer.is_default);
    }
    number(args, "hidden_dropout", "hidden-dropout");
    number(args, "attention_dropout", "attention-dropout");
    number(args, "norm_eps", "norm-epsilon");
    number(args, "init_std", "init-method-std");
    if (facts_.learned_positions && !*facts_.learned_positions) {
      number(args, "rope_theta", "rotary-base");
    }
    if (args.is_on("use-rope-scaling")) {
      add("rope_scaling", "llama3", {"use-rope-scaling"}, false);
      number(args, "rope_factor", "rope-scaling-factor");
    }
    const std::string kind = args.text("position-embedding-type").value_or("");
    if (!kind.empty() && kind != "rope" && kind != "learned_absolute") {
      add("position_kind", word_at(config_, "position-embedding-type"));
    }
    switch_of(args, "linear_bias", "disable-bias-linear", false);
    switch_of(args, "qkv_bias", "add-qkv-bias", true);
    switch_of(args, "qk_norm", "qk-layernorm", true);
    if (facts_.experts) {
      number(args, "experts_per_token", "moe-router-topk");
    }
    const Whole end = whole_at(config_, "lr-decay-iters");
    add("decay_end", end);
    if (facts_.lr_schedule && *facts_.lr_schedule == "WSD") {
      const std::string style =
          args.text("lr-wsd-decay-style").value_or("exponential");
      add_wsd(whole_at(config_, "lr-wsd-decay-iters"),
              style == "minus_sqrt" ? "sqrt" : style,
              {"lr-decay-style", "lr-wsd-decay-style"});
    }
    if (facts_.optimizer && *facts_.optimizer == "sgd") {
      number(args, "momentum", "sgd-momentum");
    }
    if (is_fp16()) {
      number(args, "initial_loss_scale", "initial-loss-scale");
      number(args, "min_loss_scale", "min-loss-scale");
      if (const Whole window = whole_at(config_, "loss-scale-window")) {
        add("loss_scale_window", window);
      }
    }
  }

  // Constant after the warm-up, then the last steps' decay.
  void add_wsd(const Whole& steps, const std::string& style, const Keys& keys) {
    add("lr_schedule", "wsd", keys, false);
    add("wsd_style", style, keys, false);
    add("wsd_steps", steps);
  }

  void number(const MegatronArguments& args,
              const char* name,
              const std::string& key) {
    if (args.is_set(key)) {
      add(name, real_at(config_, key));
    } else if (args.is_off(key) && args.number(key)) {
      add(name, *args.number(key), {key}, true);
    }
  }

  // `means`: what the fact is when the switch is on.
  void switch_of(const MegatronArguments& args,
                 const char* name,
                 const std::string& key,
                 bool means) {
    if (args.is_on(key)) {
      add(name, means, {key}, false);
    } else if (args.is_off(key)) {
      add(name, !means, {key}, true);
    }
  }

  void read_torchtitan() {
    add("decoupled_decay",
        *facts_.optimizer != "adam",
        {"optimizer.name"},
        facts_.optimizer.is_default);
    const TorchTitanModel* model = torchtitan_model(config_);
    if (model != nullptr) {
      add("architecture", std::string(model->name), {"model.name"}, false);
      const bool is_llama = model->name == "llama3";
      const bool is_qwen = model->name == "qwen3";
      if (is_llama || is_qwen) {
        add_plain_llama({"model.name"});
        add("linear_bias", false, {"model.name"}, false);
        add("qkv_bias", false, {"model.name"}, false);
        add("qk_norm", is_qwen, {"model.name"}, false);
      }
      add_titan_details(torchtitan_details(*model));
    } else {
      add("architecture",
          torchtitan_word(config_, "model.name"),
          {"model.name", "model.flavor"},
          false);
    }
    const Word weights = word_at(config_, "training.dtype");
    if (weights && *weights == "bfloat16") {
      add("weights_dtype", weights);
    }
    const Real ratio = real_at(config_, "lr_scheduler.decay_ratio");
    if (ratio && *ratio == 0.0) {
      // No decay at all.
      add("lr_schedule", "constant", {ratio.key}, false);
    } else if (ratio && *ratio > 0.0 && *ratio < 1.0 &&
               !whole_at(config_, "lr_scheduler.total_steps") &&
               facts_.steps.value_or(0) < (int64_t{1} << 40) &&
               facts_.warmup_steps.value_or(0) >= 0 &&
               facts_.warmup_steps.value_or(0) < facts_.steps.value_or(0)) {
      const int64_t length = facts_.steps.value_or(0);
      const int64_t warmup = facts_.warmup_steps.value_or(0);
      // What does not fit behind the warm-up is cut.
      Whole decay = facts_.steps;
      decay.value = std::min(static_cast<int64_t>(std::round(
                                 *ratio * static_cast<double>(length))),
                             length - warmup);
      decay.key = ratio.key;
      decay.is_default = false;
      add_wsd(decay,
              facts_.lr_schedule.value_or("linear"),
              {ratio.key, "lr_scheduler.decay_type"});
    }
    add_titan_batch();
  }

  void add_titan_details(const TorchTitanDetails& details) {
    const Keys keys = {"model.name", "model.flavor"};
    add("norm_eps", details.norm_eps, keys, false);
    add("rope_theta", details.rope_theta, keys, false);
    if (!details.rope_scaling.empty() &&
        facts_.sequence.value_or(0) > details.scaled_beyond) {
      add("rope_scaling", std::string(details.rope_scaling), keys, false);
      add("rope_factor", details.rope_factor, keys, false);
      if (details.rope_scaling == "llama3") {
        add("rope_is_usual", details.is_usual, {}, details.is_usual);
      }
    }
  }

  // Under pp the microbatch is a part of the local batch.
  void add_titan_batch() {
    const Whole global = whole_at(config_, "training.global_batch_size");
    const int64_t dp = facts_.dp.value_or(0);
    const int64_t micro = facts_.microbatch.value_or(0);
    if (facts_.pp.value_or(1) > 1 && global && dp > 0 && micro > 0 &&
        dp < (1 << 20) && micro < (1 << 20) && *global % (dp * micro) == 0 &&
        *global > 0) {
      add("global_batch", global);
      add("accumulation", *global / (dp * micro), {}, false);
    }
  }

  void add_plain_llama(const Keys& keys) {
    add("hidden_dropout", 0.0, keys, true);
    add("attention_dropout", 0.0, keys, true);
    if (!facts_.gated) {
      add("gated", true, keys, true);
    }
    if (!facts_.norm) {
      add("norm", "rmsnorm", keys, true);
    }
    if (!facts_.learned_positions) {
      add("learned_positions", false, keys, true);
    }
  }

  void read_nanotron() {
    const std::string model = "model.model_config.";
    const std::string kind = nanotron_model_class(config_);
    const std::string class_key = model + "is_" + kind + "_config";
    add("architecture", kind, {class_key}, false);
    add("decoupled_decay", true, {}, true);
    if (kind == "llama" || kind == "qwen2") {
      add_plain_llama({class_key});
      const Flag bias = flag_at(config_, model + "attention_bias");
      add("linear_bias", false, {class_key}, true);
      add("qkv_bias", bias.value_or(false), {model + "attention_bias"}, !bias);
    } else {
      add("hidden_dropout", real_at(config_, model + "resid_pdrop"));
      add("attention_dropout", real_at(config_, model + "attn_pdrop"));
    }
    const Real eps = real_at(config_, model + "rms_norm_eps");
    add("norm_eps", eps ? eps : real_at(config_, model + "layer_norm_epsilon"));
    add("rope_theta", real_at(config_, model + "rope_theta"));
    add("max_positions", whole_at(config_, model + "max_position_embeddings"));
    add("init_std", real_at(config_, "model.init_method.std"));
    add("experts_per_token", whole_at(config_, model + "moe_config.top_k"));
    add_nanotron_decay();
  }

  // The decay's length counts from the warm-up's end, unless it says where it
  // starts.
  void add_nanotron_decay() {
    const std::string schedule = "optimizer.learning_rate_scheduler.";
    const Whole start = whole_at(config_, schedule + "lr_decay_starting_step");
    const int64_t warmup = facts_.warmup_steps.value_or(0);
    const int64_t length = facts_.steps.value_or(0);
    if (start && facts_.decay_steps && facts_.lr_schedule && *start > warmup &&
        *start < length && *facts_.decay_steps == length - *start) {
      const std::string& style = *facts_.lr_schedule;
      add_wsd(facts_.decay_steps,
              style == "1-sqrt" ? "sqrt" : style,
              {facts_.lr_schedule.key, start.key});
      return;
    }
    if (!facts_.decay_steps || start.value_or(warmup) != warmup || warmup < 0 ||
        warmup > (int64_t{1} << 40) ||
        *facts_.decay_steps > (int64_t{1} << 40)) {
      return;
    }
    Whole end = facts_.decay_steps;
    end.value = *end + warmup;
    add("decay_end", end);
    if (start) {
      named_.back().keys.push_back(start.key);
    }
  }

  const ForeignConfig& config_;
  const RunFacts& facts_;
  std::vector<NamedFact> named_;
};

bool is_text(const ForeignConfig& config,
             const std::string& path,
             std::string_view text) {
  const Word word = word_at(config, path);
  return word && *word == text;
}

using Companions = std::vector<std::pair<std::string, std::string>>;

Companions of_deepspeed(const ForeignConfig& config, const RunFacts& facts) {
  Companions found;
  const std::string params = "scheduler.params.";
  const Real most = real_at(config, params + "warmup_max_lr");
  if (most && facts.lr && *most == *facts.lr) {
    found.emplace_back(most.key, "lr");
  }
  if (is_text(config, params + "warmup_type", "linear")) {
    found.emplace_back(params + "warmup_type", "warmup_steps");
  }
  return found;
}

Companions of_megatron(const ForeignConfig& config, const RunFacts& facts) {
  Companions found = {{"group-query-attention", "kv_heads"},
                      {"position-embedding-type", "learned_positions"},
                      {"use-rotary-position-embeddings", "learned_positions"},
                      {"use-mcore-models", "layers"},
                      {"swiglu", "gated"}};
  if (facts.zero_stage.key == "use-megatron-fsdp") {
    found.emplace_back("use-distributed-optimizer", "zero_stage");
    found.emplace_back("data-parallel-sharding-strategy", "zero_stage");
  }
  const Whole every = whole_at(config, "recompute-num-layers");
  if (facts.recompute && *facts.recompute == "full" &&
      is_text(config, "recompute-method", "uniform") && every && *every == 1) {
    found.emplace_back("recompute-method", "recompute");
    found.emplace_back("recompute-num-layers", "recompute");
  }
  return found;
}

Companions of_torchtitan(const ForeignConfig& config) {
  Companions found = {{"model.name", "layers"}};
  const int64_t replicas =
      torchtitan_whole(config, "parallelism.data_parallel_replicate_degree");
  const int64_t shards =
      torchtitan_whole(config, "parallelism.data_parallel_shard_degree");
  // Shards within replicas are no zero stage of all ranks.
  if (replicas == 1 || shards == 1) {
    found.emplace_back("parallelism.data_parallel_replicate_degree", "dp");
    found.emplace_back("parallelism.data_parallel_shard_degree", "dp");
  }
  return found;
}

Companions of_nanotron(const ForeignConfig& config) {
  const std::string schedule = "optimizer.learning_rate_scheduler.";
  Companions found;
  if (is_text(config, schedule + "lr_warmup_style", "linear")) {
    found.emplace_back(schedule + "lr_warmup_style", "warmup_steps");
  }
  if (is_text(config, "model.model_config.hidden_act", "silu")) {
    found.emplace_back("model.model_config.hidden_act", "gated");
  }
  return found;
}

}  // namespace

std::vector<NamedFact> more_facts(const ForeignConfig& config,
                                  const RunFacts& facts) {
  return MoreFacts(config, facts).read();
}

std::vector<std::pair<std::string, std::string>> companions(
    const ForeignConfig& config, const RunFacts& facts) {
  switch (config.system) {
    case System::kDeepSpeed:
      return of_deepspeed(config, facts);
    case System::kMegatron:
      return of_megatron(config, facts);
    case System::kTorchTitan:
      return of_torchtitan(config);
    case System::kNanotron:
      return of_nanotron(config);
    case System::kTriax:
      break;
  }
  return {};
}

}  // namespace triax
