// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

const std::string kZero = "zero_optimization.";
const std::string kParams = "optimizer.params.";
const std::string kSchedule = "scheduler.params.";

bool is_of_program(const std::string& name) {
  static constexpr std::string_view kNames[] = {"layers",
                                                "hidden",
                                                "ffn",
                                                "heads",
                                                "kv_heads",
                                                "head_dim",
                                                "vocabulary",
                                                "experts",
                                                "experts_per_token",
                                                "sequence",
                                                "max_positions",
                                                "tied",
                                                "gated",
                                                "learned_positions",
                                                "norm",
                                                "norm_eps",
                                                "rope_theta",
                                                "rope_scaling",
                                                "rope_factor",
                                                "init_std",
                                                "linear_bias",
                                                "qkv_bias",
                                                "qk_norm",
                                                "architecture",
                                                "hidden_dropout",
                                                "resid_dropout",
                                                "embd_dropout",
                                                "attention_dropout",
                                                "seed"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

const std::map<std::string, const char*>& plain_keys() {
  static const std::map<std::string, const char*> keys = {
      {"global_batch", "train_batch_size"},
      {"microbatch", "train_micro_batch_size_per_gpu"},
      {"accumulation", "gradient_accumulation_steps"},
      {"clipping", "gradient_clipping"},
      {"lr", "optimizer.params.lr"},
      {"weight_decay", "optimizer.params.weight_decay"},
      {"reduce_dtype", "communication_data_type"},
      {"loss_scale_window", "fp16.loss_scale_window"},
  };
  return keys;
}

void write_degree(TargetWriter& out, const NamedFact& fact) {
  const int64_t degree = out.whole(fact.name, 1);
  if (fact.name == "pp" && degree > 1) {
    out.lose(
        "a pipeline is made in the program, by PipelineModule(num_stages=…)");
  } else if (fact.name == "ep" && degree > 1) {
    out.lose("experts are made and spread in the program");
  } else if (degree > 1 && fact.name == "cp") {
    out.put("sequence_parallel_size", degree);
    out.lose("DeepSpeed's is Ulysses, which splits the heads for it");
  } else if (degree > 1 && fact.name == "tp") {
    out.put("tensor_parallel.autotp_size", degree);
  } else {
    out.imply();
  }
}

void write_offload(TargetWriter& out, const NamedFact& fact) {
  const std::string device = out.word(fact.name, "none");
  const bool is_optimizer = fact.name == "offload_optimizer";
  const int64_t needed = is_optimizer ? 1 : 3;
  if (device == "none") {
    out.imply();
    return;
  }
  if (out.whole("zero_stage", 0) < needed) {
    out.lose(is_optimizer ? "DeepSpeed offloads it from ZeRO 1 on"
                          : "DeepSpeed offloads parameters with ZeRO 3 alone");
    return;
  }
  const std::string section =
      kZero + (is_optimizer ? "offload_optimizer." : "offload_param.");
  out.put(section + "device", device);
  if (device != "nvme") {
    return;
  }
  if (out.is_said("offload_dir")) {
    out.set(section + "nvme_path", out.word("offload_dir"));
  } else {
    out.stand_in(section + "nvme_path", "/local_nvme", "the disk's folder");
  }
  if (out.whole("zero_stage", 0) < 3) {
    out.lose("below ZeRO 3 DeepSpeed keeps it in the host's memory");
  }
}

// It stands beside what lies there.
void write_offload_dir(TargetWriter& out) {
  const int64_t zero = out.whole("zero_stage", 0);
  if ((out.word("offload_optimizer") == "nvme" && zero >= 1) ||
      (out.word("offload_parameters") == "nvme" && zero >= 3)) {
    out.imply();
  } else {
    out.lose("nothing is offloaded to it");
  }
}

void write_precision(TargetWriter& out) {
  const std::string precision = product_precision(out);
  if (precision == "bf16" || precision == "fp16") {
    out.put(precision + ".enabled", true);
  } else if (precision == "fp32") {
    out.imply();
  } else {
    out.put("bf16.enabled", true);
    out.lose("bf16 instead: fp8 is made in the program");
  }
}

// Its Adam decouples weight decay (AdamW) unless adam_w_mode is off.
void write_optimizer(TargetWriter& out) {
  const std::string optimizer = out.word("optimizer");
  if (is_adam(optimizer)) {
    const bool is_decoupled = out.flag("decoupled_decay", optimizer == "adamw");
    out.put("optimizer.type", is_decoupled ? "AdamW" : "Adam");
    if (!is_decoupled) {
      out.set(kParams + "adam_w_mode", false);
    }
  } else if (optimizer == "sgd") {
    out.put("optimizer.type", "SGD");
    if (out.whole("zero_stage", 0) > 0) {
      out.set("zero_allow_untested_optimizer", true);
    }
  } else if (optimizer == "lion") {
    out.put("optimizer.type", "Lion");
  } else {
    out.lose("choose optimizer.type yourself");
  }
}

void write_schedule(TargetWriter& out) {
  const std::string schedule = plain_schedule(out.word("lr_schedule"));
  if (schedule.empty()) {
    out.lose("DeepSpeed has no such schedule");
  } else if (schedule != "constant" && !out.is_said("steps")) {
    out.lose("its schedules must be told the number of steps");
  } else if (schedule == "constant" && out.whole("warmup_steps", 0) == 0) {
    out.imply();
  } else {
    out.put("scheduler.type",
            schedule == "cosine"   ? "WarmupCosineLR"
            : schedule == "linear" ? "WarmupDecayLR"
                                   : "WarmupLR");
  }
}

}  // namespace

void write_deepspeed(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  const auto plain = plain_keys().find(name);
  if (is_of_program(name)) {
    out.lose("the program makes the model, feeds it and seeds it");
  } else if (plain != plain_keys().end()) {
    out.put(plain->second, fact.value);
  } else if (name == "tp" || name == "cp" || name == "pp" || name == "ep") {
    write_degree(out, fact);
  } else if (name == "dp") {
    out.imply();  // the world's, after tp and sequence_parallel_size
  } else if (name == "zero_stage") {
    out.put(kZero + "stage", fact.value);
  } else if (name == "bucket_elements") {
    out.put(kZero + "reduce_bucket_size", fact.value);
  } else if (name == "overlap_reduce") {
    out.put(kZero + "overlap_comm", fact.value);
  } else if (name == "offload_optimizer" || name == "offload_parameters") {
    write_offload(out, fact);
  } else if (name == "offload_dir") {
    write_offload_dir(out);
  } else if (name == "precision") {
    write_precision(out);
  } else if (name == "loss_scale") {
    out.put("fp16.loss_scale", fact.value);
  } else if (name == "min_loss_scale") {
    const double scale = out.real(name, 1);
    if (scale == std::floor(scale)) {
      out.put("fp16.min_loss_scale", static_cast<int64_t>(scale));
    } else {
      out.lose("DeepSpeed's is a whole number");
    }
  } else if (name == "initial_loss_scale") {
    const double power = std::log2(out.real(name, 1));
    if (power == std::floor(power)) {
      out.put("fp16.initial_scale_power", static_cast<int64_t>(power));
    } else {
      out.lose("DeepSpeed's is a power of two");
    }
  } else if (name == "optimizer") {
    write_optimizer(out);
  } else if (name == "decoupled_decay") {
    out.imply();
  } else if (name == "adam_eps" && out.word("optimizer") == "lion") {
    out.lose("Lion has no eps");
  } else if (name == "adam_eps") {
    out.put(kParams + "eps", fact.value);
  } else if (name == "beta1" || name == "beta2" || name == "momentum") {
    out.put(kParams + name, fact.value);  // finish_deepspeed() joins the betas
  } else if (name == "lr_schedule") {
    write_schedule(out);
  } else if (name == "recompute" && fact.value != Json("none")) {
    out.lose("the program marks what is recomputed");
  }
}

namespace {

// DeepSpeed hands a schedule its parameters as they are, and the schedule sets
// the rate itself.
void finish_schedule(TargetWriter& out) {
  const Json* found = out.value("scheduler.type");
  const bool is_cosine = found != nullptr && *found == Json("WarmupCosineLR");
  const bool is_linear = found != nullptr && *found == Json("WarmupDecayLR");
  if (found == nullptr) {
    out.lose_fact("warmup_steps", "no schedule is written");
    out.lose_fact("min_lr", "no schedule is written");
    out.lose_fact("decay_end", "no schedule is written");
    out.lose_fact("steps", "the program says how long it trains");
    return;
  }
  out.set(kSchedule + "warmup_num_steps",
          std::max<int64_t>(1, out.whole("warmup_steps", 0)));
  out.set(kSchedule + "warmup_type", "linear");
  const double lr = out.real("lr", 0);
  if (is_cosine || is_linear) {
    out.set(kSchedule + "total_num_steps",
            out.whole("decay_end", out.whole("steps", 1)));
  }
  if (is_cosine) {
    out.set(kSchedule + "cos_min_ratio",
            lr > 0 ? out.real("min_lr", 0) / lr : 0.0);
  } else {
    out.set(kSchedule + "warmup_min_lr", 0.0);
    out.set(kSchedule + "warmup_max_lr", lr);
  }
  out.carry("warmup_steps");
  if (is_cosine || out.real("min_lr", 0) == 0) {
    out.carry("min_lr");
  } else {
    out.lose_fact("min_lr", "its schedule goes down to 0, or nowhere");
  }
  const int64_t steps = out.whole("steps", 1);
  if (is_cosine || is_linear) {
    out.carry("decay_end");
    out.carry("steps");
    if (out.whole("decay_end", steps) != steps) {
      out.lose_fact("steps", "the program says how long it trains");
    }
  } else {
    out.lose_fact("decay_end", "nothing decays");
    out.lose_fact("steps", "the program says how long it trains");
  }
}

}  // namespace

void finish_deepspeed(TargetWriter& out) {
  const Json beta1 = out.take(kParams + "beta1");
  const Json beta2 = out.take(kParams + "beta2");
  if (!beta1.is_null() || !beta2.is_null()) {
    // The ones that stay are its own defaults.
    out.set(kParams + "betas",
            Json::array({beta1.is_null() ? Json(0.9) : beta1,
                         beta2.is_null() ? Json(0.999) : beta2}));
  }
  if (out.value("optimizer.type") == nullptr) {
    out.drop("optimizer.", "no optimizer is written that would take it");
  }
  if (out.value("fp16.enabled") == nullptr) {
    out.drop("fp16.", "fp16 is off");
  }
  finish_schedule(out);
  if (!out.is_said("global_batch") && !out.is_said("microbatch")) {
    out.stand_in(
        "train_micro_batch_size_per_gpu", 1, "DeepSpeed needs a batch size");
  }
}

}  // namespace triax
