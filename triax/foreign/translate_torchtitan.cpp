// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "triax/config/run_config.h"
#include "triax/foreign/torchtitan.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

const std::string kParallel = "parallelism.";

const std::map<std::string, const char*>& plain_keys() {
  static const std::map<std::string, const char*> keys = {
      {"tp", "parallelism.tensor_parallel_degree"},
      {"pp", "parallelism.pipeline_parallel_degree"},
      {"cp", "parallelism.context_parallel_degree"},
      {"sequence", "training.seq_len"},
      {"steps", "training.steps"},
      {"lr", "optimizer.lr"},
      {"weight_decay", "optimizer.weight_decay"},
      {"beta1", "optimizer.beta1"},
      {"beta2", "optimizer.beta2"},
      {"adam_eps", "optimizer.eps"},
      {"warmup_steps", "lr_scheduler.warmup_steps"},
      {"seed", "debug.seed"},
  };
  return keys;
}

bool is_of_model(const std::string& name) {
  static constexpr std::string_view kNames[] = {"layers",
                                                "hidden",
                                                "ffn",
                                                "heads",
                                                "kv_heads",
                                                "head_dim",
                                                "vocabulary",
                                                "tied",
                                                "gated",
                                                "experts"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_same(const TargetWriter& out,
             std::string_view fact,
             int64_t value,
             bool is_needed) {
  return !out.is_said(fact) ? !is_needed
                            : value == 0 || out.whole(fact, 0) == value;
}

// The shipped model of this shape; nullptr: none is.
const TorchTitanModel* model_like(const TargetWriter& out) {
  for (const TorchTitanModel& model : torchtitan_models()) {
    const std::string architecture = out.word("architecture", "llama3");
    const bool is_kin =
        architecture == model.name ||
        (model.name == std::string_view("llama3") && architecture == "llama");
    if (is_kin && is_same(out, "layers", model.layers, true) &&
        is_same(out, "hidden", model.dim, true) &&
        is_same(out, "heads", model.heads, true) &&
        is_same(out, "kv_heads", model.kv_heads, false) &&
        is_same(out, "ffn", model.ffn, false) &&
        is_same(out, "vocabulary", model.vocabulary, false) &&
        out.flag("tied", model.is_tied) == model.is_tied &&
        out.flag("gated", true) && !out.flag("learned_positions", false) &&
        !out.flag("linear_bias", false) && !out.flag("qkv_bias", false) &&
        out.whole("experts", 0) == model.experts) {
      return &model;
    }
  }
  return nullptr;
}

// Shards within groups of replicas.
bool has_groups(const TargetWriter& out) {
  const int64_t dp = out.whole("dp", 0);
  const int64_t group = out.whole("zero_group", 0);
  return out.whole("zero_stage", 0) > 0 && group > 0 && dp > group &&
         dp % group == 0;
}

void write_zero_group(TargetWriter& out) {
  if (has_groups(out)) {
    out.put(kParallel + "data_parallel_replicate_degree",
            out.whole("dp", 0) / out.whole("zero_group", 1));
  } else if (out.whole("zero_group", 0) == out.whole("dp", 0)) {
    out.imply();
  } else {
    out.lose("data_parallel_replicate_degree is dp / this");
  }
}

void write_zero(TargetWriter& out) {
  const int64_t stage = out.whole("zero_stage", 0);
  const int64_t dp = out.whole("dp", 0);
  if (stage > 0) {
    out.put(kParallel + "data_parallel_shard_degree",
            has_groups(out) ? Json(out.whole("zero_group", 0)) : Json(-1));
    out.set(kParallel + "fsdp_reshard_after_forward",
            stage == 3 ? "always" : "never");
    if (stage == 1) {
      out.lose(
          "FSDP shards the gradients too; the nearest is "
          "fsdp_reshard_after_forward = \"never\"");
    }
  } else if (dp > 0) {
    out.put(kParallel + "data_parallel_replicate_degree", dp);
    out.set(kParallel + "data_parallel_shard_degree", 1);
  } else {
    out.lose(
        "set data_parallel_replicate_degree to dp and "
        "data_parallel_shard_degree to 1; it shards by default");
  }
}

void write_schedule(TargetWriter& out) {
  const std::string schedule = out.word("schedule");
  if (out.whole("pp", 1) < 2) {
    out.imply();
  } else if (schedule == "1f1b" || schedule == "gpipe" ||
             schedule == "interleaved") {
    out.put(kParallel + "pipeline_parallel_schedule",
            schedule == "1f1b"    ? "1F1B"
            : schedule == "gpipe" ? "GPipe"
                                  : "Interleaved1F1B");
  } else {
    out.lose("choose pipeline_parallel_schedule");
  }
}

// Two stages a rank is what its schedules of several stages take.
void write_chunks(TargetWriter& out, const NamedFact& fact) {
  if (fact.value == Json(1) ||
      (fact.value == Json(2) && out.whole("pp", 1) > 1)) {
    out.imply();
  } else {
    out.lose("set pipeline_parallel_layers_per_stage yourself");
  }
}

void write_precision(TargetWriter& out) {
  const std::string precision = product_precision(out);
  if (precision == "bf16" || precision == "fp32") {
    out.put("training.mixed_precision_param",
            precision == "bf16" ? "bfloat16" : "float32");
  } else {
    out.put("training.mixed_precision_param", "bfloat16");
    out.lose(precision == "fp8"
                 ? "bfloat16 instead; fp8 is one of model.converters"
                 : "bfloat16 instead; it has no loss scaling for float16");
  }
}

// Its Adam is torch.optim.Adam, whose weight decay is part of the gradient.
void write_optimizer(TargetWriter& out) {
  const std::string optimizer = out.word("optimizer");
  if (is_adam(optimizer)) {
    const bool is_decoupled = out.flag("decoupled_decay", optimizer == "adamw");
    out.put("optimizer.name", is_decoupled ? "AdamW" : "Adam");
  } else {
    out.lose("optimizer.name takes Adam or AdamW");
  }
}

void write_lr_schedule(TargetWriter& out) {
  const std::string schedule = plain_schedule(out.word("lr_schedule"));
  const int64_t steps = out.whole("steps", 0);
  const int64_t decay = out.whole("wsd_steps", 0);
  if (out.word("lr_schedule") == "wsd" && decay > 0 && decay < steps) {
    out.put("lr_scheduler.decay_ratio",
            static_cast<double>(decay) / static_cast<double>(steps));
  } else if (schedule.empty()) {
    out.lose("choose lr_scheduler.decay_type yourself");
  } else if (schedule == "constant") {
    out.put("lr_scheduler.decay_ratio", 0.0);
  } else {
    out.put("lr_scheduler.decay_type", schedule);
  }
}

void write_wsd_style(TargetWriter& out) {
  const std::string style = out.word("wsd_style");
  if (style == "linear" || style == "cosine" || style == "sqrt") {
    out.put("lr_scheduler.decay_type", style);
  } else {
    out.lose("choose lr_scheduler.decay_type: linear, sqrt or cosine");
  }
}

void write_wsd_steps(TargetWriter& out) {
  const int64_t decay = out.whole("wsd_steps", 0);
  if (decay > 0 && decay < out.whole("steps", 0)) {
    out.imply();  // decay_ratio
  } else {
    out.lose("lr_scheduler.decay_ratio is this / training.steps");
  }
}

// The pipeline cuts the local batch into its microbatches.
void write_batch(TargetWriter& out, const NamedFact& fact) {
  const bool is_cut = out.whole("pp", 1) > 1;
  const int64_t micro = out.whole("microbatch", 0);
  const int64_t count = out.whole("accumulation", 0);
  if (fact.name == "microbatch") {
    out.put(is_cut ? kParallel + "pipeline_parallel_microbatch_size"
                   : std::string("training.local_batch_size"),
            fact.value);
  } else if (fact.name == "accumulation" && is_cut && micro > 0 && count > 0 &&
             micro < (1 << 20) && count < (1 << 20)) {
    out.put("training.local_batch_size", micro * count);
  } else if (fact.name == "accumulation") {
    out.is_said("global_batch") || count == 1
        ? out.imply()
        : out.lose(
              "training.global_batch_size is local_batch_size * this * dp, and "
              "nobody says dp; give --world");
  } else if (!is_cut) {
    out.put("training.global_batch_size", fact.value);
  } else if (micro > 0 && count > 0) {
    out.imply();
  } else {
    out.lose(
        "training.local_batch_size is this / dp under a pipeline, and nobody "
        "says dp; give --world");
  }
}

void write_offload(TargetWriter& out, const NamedFact& fact) {
  const std::string parameters = out.word("offload_parameters", "none");
  if (fact.value == Json("none")) {
    out.imply();
  } else if (parameters == "cpu") {
    out.put("training.enable_cpu_offload", true);
  } else {
    out.lose(
        "training.enable_cpu_offload moves parameters, gradients and states "
        "together, to the CPU");
  }
}

// Of FSDP: without shards it is DDP, which sums in the gradients' own type.
void write_reduce_dtype(TargetWriter& out) {
  const std::string dtype = out.word("reduce_dtype");
  if (dtype == "fp32") {
    out.imply();
  } else if (out.whole("zero_stage", 0) == 0) {
    out.lose(
        "training.mixed_precision_reduce is FSDP's: with "
        "data_parallel_shard_degree = 1 gradients are summed in fp32");
  } else if (dtype == "bf16" || dtype == "fp16") {
    out.put("training.mixed_precision_reduce",
            dtype == "bf16" ? "bfloat16" : "float16");
  }
}

void write_recompute(TargetWriter& out) {
  out.put("activation_checkpoint.mode", out.word("recompute", "none"));
  if (out.word("recompute") == "selective" &&
      out.from() != System::kTorchTitan) {
    out.lose("here selective means every second layer");
  }
}

void write_model(TargetWriter& out) {
  const TorchTitanModel* model = model_like(out);
  if (model == nullptr) {
    out.lose("it ships no model of this shape: register yours");
  } else {
    out.put("model.name", std::string(model->name));
    out.set("model.flavor", std::string(model->flavor));
  }
}

void write_experts(TargetWriter& out, const NamedFact& fact) {
  if (fact.value == Json(1)) {
    out.imply();
  } else if (model_like(out) == nullptr) {
    out.lose("it ships no model of this shape: register yours");
  } else {
    out.put(kParallel + (fact.name == "ep" ? "expert_parallel_degree"
                                           : "expert_tensor_parallel_degree"),
            fact.value);
  }
}

bool is_detail(const std::string& name) {
  return name == "norm_eps" || name == "rope_theta" || name == "rope_scaling" ||
         name == "rope_factor" || name == "rope_is_usual";
}

// The shipped model's own, which no key changes.
void write_detail(TargetWriter& out, const NamedFact& fact) {
  const TorchTitanModel* model = model_like(out);
  if (model == nullptr) {
    out.lose("it belongs to the model's code: register yours");
    return;
  }
  const TorchTitanDetails details = torchtitan_details(*model);
  const bool is_so =
      fact.name == "norm_eps"       ? fact.value == Json(details.norm_eps)
      : fact.name == "rope_theta"   ? fact.value == Json(details.rope_theta)
      : fact.name == "rope_scaling" ? fact.value == Json(details.rope_scaling)
      : fact.name == "rope_factor"
          ? !details.rope_scaling.empty() &&
                out.real("rope_factor", 0) == details.rope_factor
          : details.rope_scaling == "llama3" &&
                fact.value == Json(details.is_usual);
  if (is_so) {
    out.imply();
  } else {
    out.lose("the shipped model's is another, and no key changes it");
  }
}

constexpr FactWriter kWriters[] = {
    {"zero_stage", write_zero},
    {"schedule", write_schedule},
    {"precision", write_precision},
    {"optimizer", write_optimizer},
    {"lr_schedule", write_lr_schedule},
    {"wsd_style", write_wsd_style},
    {"wsd_steps", write_wsd_steps},
    {"zero_group", write_zero_group},
    {"recompute", write_recompute},
    {"reduce_dtype", write_reduce_dtype},
};

}  // namespace

void write_torchtitan(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  const auto plain = plain_keys().find(name);
  if (plain != plain_keys().end()) {
    out.put(plain->second, fact.value);
  } else if (is_of_model(name)) {
    write_model(out);
  } else if (is_detail(name)) {
    write_detail(out, fact);
  } else if (name == "dp" || name == "decoupled_decay" ||
             name == "sequence_parallel") {
    out.imply();  // the world's, the optimizer's; it goes with tp
  } else if (name == "microbatch" || name == "accumulation" ||
             name == "global_batch") {
    write_batch(out, fact);
  } else if (name == "ep" || name == "expert_tp") {
    write_experts(out, fact);
  } else if (name == "chunks") {
    write_chunks(out, fact);
  } else if (name == "clipping") {
    // 0 would scale every gradient to 0 there.
    out.put("training.max_norm",
            out.real("clipping", 0) > 0 ? fact.value : Json(1e30));
  } else if (name == "min_lr" && out.real("lr", 0) > 0) {
    out.put("lr_scheduler.min_lr_factor",
            out.real("min_lr", 0) / out.real("lr", 1));
  } else if (name == "decay_end" && fact.value == Json(out.whole("steps", 0))) {
    out.imply();
  } else if (name.ends_with("_dropout") && fact.value == Json(0.0)) {
    out.imply();  // its models have none
  } else if (name == "offload_optimizer" || name == "offload_parameters") {
    write_offload(out, fact);
  } else if (name == "architecture" && model_like(out) != nullptr) {
    out.imply();
  } else {
    write_by_row(out, name, kWriters);
  }
}

void finish_torchtitan(TargetWriter& out) {
  out.stand_in("training.steps", usual_steps(out), "its default is 10000");
  out.stand_in("training.seq_len", usual_sequence(out), "its default is 2048");
  out.stand_in("training.local_batch_size", 1, "its default is 8");
  out.stand_in("optimizer.lr", 3e-4, "its default is 8e-4");
  if (out.value("model.name") == nullptr) {
    const char* const what =
        "register your model there; without one it trains a debug model";
    out.stand_in("model.name", "your_model", what);
    out.stand_in("model.flavor", "your_flavor", what);
    out.stand_in("experimental.custom_import", "your_module", what);
  }
  out.leave_open("training.dataset", "it reads c4_test unless told otherwise");
  out.leave_open("model.hf_assets_path", "the folder of the tokenizer");
}

}  // namespace triax
