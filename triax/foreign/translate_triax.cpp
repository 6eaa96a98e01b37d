// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "triax/config/fields.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

const std::map<std::string, const char*>& plain_keys() {
  static const std::map<std::string, const char*> keys = {
      {"tp", "parallel.tp"},
      {"pp", "parallel.pp"},
      {"dp", "parallel.dp"},
      {"zero_stage", "parallel.zero"},
      {"chunks", "parallel.chunks"},
      {"sequence_parallel", "parallel.sequence_parallel"},
      {"microbatch", "training.microbatch_size"},
      {"accumulation", "training.gradient_accumulation_steps"},
      {"global_batch", "training.global_batch_size"},
      {"steps", "training.steps"},
      {"seed", "training.seed"},
      {"clipping", "training.gradient_clipping"},
      {"initial_loss_scale", "training.initial_loss_scale"},
      {"min_loss_scale", "training.min_loss_scale"},
      {"loss_scale_window", "training.loss_scale_window"},
      {"sequence", "data.sequence_length"},
      {"layers", "model.num_hidden_layers"},
      {"hidden", "model.hidden_size"},
      {"ffn", "model.intermediate_size"},
      {"heads", "model.num_attention_heads"},
      {"kv_heads", "model.num_key_value_heads"},
      {"head_dim", "model.head_dim"},
      {"vocabulary", "model.vocab_size"},
      {"max_positions", "model.max_position_embeddings"},
      {"tied", "model.tie_word_embeddings"},
      {"norm_eps", "model.norm_eps"},
      {"rope_theta", "model.rope_theta"},
      {"init_std", "model.initializer_range"},
      {"resid_dropout", "model.resid_pdrop"},
      {"embd_dropout", "model.embd_pdrop"},
      {"attention_dropout", "model.attn_pdrop"},
      {"recompute", "memory.recompute"},
      {"lr", "optimizer.lr"},
      {"min_lr", "optimizer.min_lr"},
      {"weight_decay", "optimizer.weight_decay"},
      {"momentum", "optimizer.momentum"},
      {"warmup_steps", "optimizer.warmup_steps"},
      {"wsd_steps", "optimizer.decay_steps"},
      {"adam_eps", "optimizer.eps"},
      {"beta1", "optimizer.beta1"},  // finish_triax() makes a list of them
      {"beta2", "optimizer.beta2"},
  };
  return keys;
}

bool is_gpt2(const TargetWriter& out) {
  return out.flag("learned_positions",
                  out.word("architecture") == std::string("gpt2"));
}

// Only what is built is written.
void put_field(TargetWriter& out, const char* key, const NamedFact& fact) {
  const Field* field = find_field(key);
  const bool is_neutral = fact.value == Json(0) || fact.value == Json(1) ||
                          fact.value == Json(false) ||
                          fact.value == Json("none");
  const bool is_beyond = field != nullptr && fact.value.is_number_integer() &&
                         fact.value.get<int64_t>() > field->max_built;
  if (is_beyond) {
    out.put(key, field->max_built);
    out.lose(fmt::format("{} instead: this triax does not build it yet",
                         field->max_built));
  } else if (field == nullptr || !field->is_default_only) {
    out.put(key, fact.value);
  } else if (is_neutral && fact.name != "zero_stage") {
    out.imply();
  } else if (fact.value == Json(0)) {
    out.imply();
  } else {
    out.lose("this triax does not build it yet");
  }
}

// What a family is; nothing else says it.
void write_of_family(TargetWriter& out, const NamedFact& fact) {
  const bool gpt2 = is_gpt2(out);
  const std::string norm = out.word("norm");
  const std::string name = out.word("architecture");
  const bool is_rms = norm == "rmsnorm" || norm == "RMSNorm";
  bool is_so = true;
  if (fact.name == "gated") {
    is_so = fact.value == Json(!gpt2);
  } else if (fact.name == "norm") {
    is_so = is_rms == !gpt2;
  } else if (fact.name == "linear_bias" || fact.name == "qkv_bias") {
    is_so = fact.value == Json(gpt2);
    // Megatron-LM's qkv has its bias from the rest.
    is_so = is_so || (gpt2 && fact.name == "qkv_bias");
  } else if (fact.name == "qk_norm") {
    is_so = fact.value == Json(false);
  } else {
    is_so = name == (gpt2 ? "gpt2" : "llama") || (!gpt2 && name == "llama3");
  }
  if (is_so) {
    out.imply();
  } else {
    out.lose(gpt2 ? "triax's gpt2 is not so" : "triax's llama is not so");
  }
}

void write_schedule(TargetWriter& out) {
  const std::string schedule = out.word("schedule");
  if (schedule == "1f1b" || schedule == "gpipe") {
    out.put("parallel.schedule", schedule);
  } else if (out.whole("pp", 1) < 2) {
    out.imply();
  } else {
    out.lose("1f1b instead: triax has gpipe and 1f1b");
  }
}

void write_precision(TargetWriter& out) {
  const std::string precision = out.word("precision");
  const bool is_bf16 = precision == "bf16";
  if (is_bf16 && out.from() == System::kTorchTitan) {
    // Its weights stay fp32, and are cast for the products.
    out.put("training.precision", "bf16_autocast");
  } else if (is_bf16 || precision == "fp32" || precision == "fp16" ||
             precision == "bf16_autocast") {
    out.put("training.precision", precision);
  } else {
    out.put("training.precision", "bf16");
    out.lose("bf16 instead");
  }
}

void write_optimizer(TargetWriter& out) {
  const std::string optimizer = out.word("optimizer");
  if (is_adam(optimizer)) {
    out.put("optimizer.name", "adamw");
    if (!out.flag("decoupled_decay", optimizer == "adamw") &&
        out.real("weight_decay", 1) != 0) {
      out.lose("adamw instead: its weight decay is not part of the gradient");
    }
  } else if (optimizer == "sgd") {
    out.put("optimizer.name", "sgd");
  } else {
    out.lose("triax has adamw and sgd");
  }
}

void write_lr_schedule(TargetWriter& out) {
  const std::string schedule = out.word("lr_schedule");
  const std::string plain = plain_schedule(schedule);
  if (!plain.empty()) {
    out.put("optimizer.schedule", plain);
  } else if (schedule == "wsd" && out.whole("wsd_steps", 0) > 0) {
    out.put("optimizer.schedule", "wsd");
  } else {
    out.lose("choose optimizer.schedule: constant, cosine, linear or wsd");
  }
}

void write_wsd_style(TargetWriter& out) {
  if (out.word("wsd_style") == "linear") {
    out.imply();
  } else {
    out.lose("linear instead: triax's wsd has no other decay");
  }
}

constexpr std::string_view kOffload = "offload_";

// What triax keeps on file; parameters and gradients only beside the
// optimizer's state.
std::vector<std::string> offload_states(const TargetWriter& out) {
  std::vector<std::string> states;
  const auto add = [&](const char* state, bool is_possible) {
    if (is_possible && out.word(std::string(kOffload) + state) == "nvme") {
      states.push_back(state);
    }
  };
  add("optimizer", true);
  const bool has_optimizer = !states.empty();
  const int64_t zero = out.whole("zero_stage", 0);
  add("gradients", has_optimizer && zero >= 2);
  add("parameters", has_optimizer && zero >= 3);
  add("activations", true);
  return states;
}

void write_offload(TargetWriter& out, const NamedFact& fact) {
  const std::vector<std::string> states = offload_states(out);
  if (fact.value != Json("nvme")) {
    // Ranks are on the CPU: whatever they hold is in the host's memory.
    out.imply();
  } else if (std::ranges::find(states, fact.name.substr(kOffload.size())) !=
             states.end()) {
    out.put("memory.offload", "nvme");
    out.set("memory.offload_states", states);
  } else {
    out.lose(
        "triax keeps parameters on file with parallel.zero = 3, and beside "
        "the optimizer's state");
  }
}

// In bf16 and fp16 too the gradients are fp32.
constexpr int64_t kGradientBytes = 4;
constexpr int64_t kMaxBucket = int64_t{1} << 38;

void write_rest(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  if (name == "hidden_dropout") {
    out.put("model.resid_pdrop", fact.value);  // finish_triax() adds embd's
  } else if (name == "learned_positions") {
    out.put("model.family", is_gpt2(out) ? "gpt2" : "llama");
  } else if (name == "bucket_elements") {
    const int64_t elements = out.whole(name, 0);
    if (elements > 0 && elements < kMaxBucket) {
      out.put("parallel.bucket_bytes", elements * kGradientBytes);
    }
  } else if (name == "overlap_reduce" && fact.value == Json(true)) {
    out.imply();
  } else if (name == "reduce_dtype" && fact.value == Json("fp32")) {
    out.imply();
  } else if (name == "reduce_dtype" &&
             (fact.value == Json("bf16") || fact.value == Json("fp16"))) {
    out.put("parallel.reduce_dtype", fact.value);
  } else if (name == "offload_dir") {
    if (offload_states(out).empty()) {
      out.imply();
    } else {
      out.put("memory.offload_dir", fact.value);
    }
  } else if (name.starts_with(kOffload)) {
    write_offload(out, fact);
  } else if (name == "decoupled_decay") {
    out.imply();
  } else if (name == "decay_end" && fact.value == Json(out.whole("steps", 0))) {
    out.imply();
  } else if ((name == "rope_scaling" || name == "rope_factor") &&
             out.word("rope_scaling") != "llama3" &&
             out.word("rope_scaling") != "default") {
    out.lose("triax scales RoPE as llama3 does, or not");
  } else if (name == "rope_scaling") {
    out.put("model.rope_scaling.type", fact.value);
  } else if (name == "rope_factor") {
    out.put("model.rope_scaling.factor", fact.value);
  } else if (name == "experts" || name == "experts_per_token") {
    out.lose("triax has no mixture of experts");
  }
}

constexpr FactWriter kWriters[] = {
    {"schedule", write_schedule},
    {"precision", write_precision},
    {"optimizer", write_optimizer},
    {"lr_schedule", write_lr_schedule},
    {"wsd_style", write_wsd_style},
};

}  // namespace

void write_triax(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  const auto plain = plain_keys().find(name);
  if (plain != plain_keys().end()) {
    put_field(out, plain->second, fact);
  } else if (name == "gated" || name == "norm" || name == "linear_bias" ||
             name == "qkv_bias" || name == "qk_norm" ||
             name == "architecture") {
    write_of_family(out, fact);
  } else if (!write_by_row(out, name, kWriters)) {
    write_rest(out, fact);
  }
}

void finish_triax(TargetWriter& out) {
  const Json beta1 = out.take("optimizer.beta1");
  const Json beta2 = out.take("optimizer.beta2");
  const bool is_adam = out.value("optimizer.name") == nullptr ||
                       *out.value("optimizer.name") == Json("adamw");
  if (is_adam && (!beta1.is_null() || !beta2.is_null())) {
    const std::vector<double> usual = OptimizerConfig{}.betas;
    out.set("optimizer.betas",
            Json::array({beta1.is_null() ? Json(usual[0]) : beta1,
                         beta2.is_null() ? Json(usual[1]) : beta2}));
  }
  const Json* dropout = out.value("model.resid_pdrop");
  if (dropout != nullptr && out.is_said("hidden_dropout")) {
    out.set("model.embd_pdrop", Json(*dropout));
  }
  // What the two others and dp say; one replica makes the same batch.
  const Json* global = out.value("training.global_batch_size");
  if (global != nullptr && !out.is_said("dp")) {
    out.take("training.gradient_accumulation_steps");
  }
  out.stand_in("training.steps", usual_steps(out), "its default is 100");
  stand_in_model(out,
                 {.layers = "model.num_hidden_layers",
                  .heads = "model.num_attention_heads",
                  .kv_heads = "model.num_key_value_heads",
                  .hidden = "model.hidden_size",
                  .ffn = "model.intermediate_size",
                  .vocabulary = "model.vocab_size"});
  out.stand_in(
      "data.sequence_length", usual_sequence(out), "its default is 128");
  out.set("model.max_position_embeddings",
          Json(*out.value("data.sequence_length")));
  out.stand_in("training.microbatch_size", 1, "its default is 1");
  out.stand_in("optimizer.lr", 3e-4, "its default is 1e-3");
  const int64_t steps = out.whole("steps", usual_steps(out));
  if (out.whole("warmup_steps", 0) >= steps && steps > 0) {
    out.take("optimizer.warmup_steps");
    out.set("optimizer.warmup_steps", steps - 1);
    out.lose_fact("warmup_steps",
                  "one step less than the run, which triax asks for");
  }
  out.leave_open("data.path", "the tokens, or a text");
}

}  // namespace triax
