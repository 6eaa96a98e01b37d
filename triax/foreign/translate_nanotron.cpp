// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "triax/foreign/nanotron.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

const std::string kParallel = "parallelism.";
const std::string kFactory = "optimizer.optimizer_factory.";
const std::string kScheduler = "optimizer.learning_rate_scheduler.";
const std::string kModel = "model.model_config.";

const std::map<std::string, std::string>& plain_keys() {
  static const std::map<std::string, std::string> keys = {
      {"tp", kParallel + "tp"},
      {"pp", kParallel + "pp"},
      {"dp", kParallel + "dp"},
      {"microbatch", "tokens.micro_batch_size"},
      {"sequence", "tokens.sequence_length"},
      {"steps", "tokens.train_steps"},
      {"weight_decay", "optimizer.weight_decay"},
      {"beta1", kFactory + "adam_beta1"},
      {"beta2", kFactory + "adam_beta2"},
      {"adam_eps", kFactory + "adam_eps"},
      {"lr", kScheduler + "learning_rate"},
      {"min_lr", kScheduler + "min_decay_lr"},
      {"warmup_steps", kScheduler + "lr_warmup_steps"},
      {"layers", kModel + "num_hidden_layers"},
      {"hidden", kModel + "hidden_size"},
      {"ffn", kModel + "intermediate_size"},
      {"heads", kModel + "num_attention_heads"},
      {"kv_heads", kModel + "num_key_value_heads"},
      {"vocabulary", kModel + "vocab_size"},
      {"max_positions", kModel + "max_position_embeddings"},
      {"tied", kModel + "tie_word_embeddings"},
      {"norm_eps", kModel + "rms_norm_eps"},
      {"rope_theta", kModel + "rope_theta"},
      {"init_std", "model.init_method.std"},
      {"seed", "general.seed"},
  };
  return keys;
}

void write_zero(TargetWriter& out) {
  const int64_t stage = out.whole("zero_stage", 0);
  out.put("optimizer.zero_stage", std::min<int64_t>(stage, 1));
  if (stage > 1) {
    out.lose("1 instead: nanotron shards the optimizer's states alone");
  }
}

void write_precision(TargetWriter& out) {
  const std::string precision = product_precision(out);
  out.put("model.dtype",
          precision == "fp16"   ? "float16"
          : precision == "fp32" ? "float32"
                                : "bfloat16");
  if (precision == "fp8") {
    out.lose("bfloat16 instead");
  } else if (precision == "fp16") {
    out.lose("float16, without the loss scaling that nanotron has not");
  }
}

void write_schedule(TargetWriter& out) {
  const std::string schedule = out.word("schedule");
  out.put(kParallel + "pp_engine", schedule == "gpipe" ? "afab" : "1f1b");
  if (schedule != "gpipe" && schedule != "1f1b") {
    out.lose("1f1b instead");
  }
}

void write_optimizer(TargetWriter& out) {
  const std::string optimizer = out.word("optimizer");
  if (is_adam(optimizer)) {
    out.put(kFactory + "name", "adamW");
    if (!out.flag("decoupled_decay", optimizer == "adamw") &&
        out.real("weight_decay", 1) != 0) {
      out.lose("adamW instead: its weight decay is not part of the gradient");
    }
  } else if (optimizer == "sgd") {
    out.put(kFactory + "name", "sgd");
  } else {
    out.lose("its factory takes adamW or sgd");
  }
}

// Constant after the warm-up, then a decay up to the run's end.
bool is_wsd(const TargetWriter& out) {
  const int64_t decay = out.whole("wsd_steps", 0);
  return out.word("lr_schedule") == "wsd" && decay > 0 &&
         decay < out.whole("steps", 0) &&
         out.word("wsd_style") != "exponential";
}

void write_wsd_style(TargetWriter& out) {
  const std::string style = out.word("wsd_style");
  if (is_wsd(out)) {
    out.put(kScheduler + "lr_decay_style", style == "sqrt" ? "1-sqrt" : style);
  } else {
    out.lose("choose lr_decay_style yourself: linear, cosine or 1-sqrt");
  }
}

void write_wsd_steps(TargetWriter& out) {
  if (is_wsd(out)) {
    out.put(kScheduler + "lr_decay_steps", out.whole("wsd_steps", 0));
    out.set(kScheduler + "lr_decay_starting_step",
            out.whole("steps", 0) - out.whole("wsd_steps", 0));
  } else {
    out.lose("set lr_decay_starting_step and lr_decay_steps yourself");
  }
}

void write_lr_schedule(TargetWriter& out) {
  const std::string schedule = plain_schedule(out.word("lr_schedule"));
  if (is_wsd(out)) {
    out.imply();  // lr_decay_starting_step
  } else if (schedule == "cosine" || schedule == "linear") {
    out.put(kScheduler + "lr_decay_style", schedule);
  } else if (schedule == "constant") {
    // A decay to the rate itself.
    out.put(kScheduler + "lr_decay_style", "linear");
  } else {
    out.lose("choose lr_decay_style yourself: linear, cosine or 1-sqrt");
  }
}

// What the llama class is, and what it is not.
void write_of_class(TargetWriter& out, const NamedFact& fact) {
  static const std::map<std::string, Json> llama = {
      {"gated", true},
      {"learned_positions", false},
      {"linear_bias", false},
      {"qk_norm", false},
      {"hidden_dropout", 0.0},
      {"resid_dropout", 0.0},
      {"embd_dropout", 0.0},
      {"attention_dropout", 0.0},
      {"reduce_dtype", "fp32"},
  };
  const auto found = llama.find(fact.name);
  const std::string norm = out.word("norm");
  const std::string architecture = out.word("architecture");
  const bool is_norm =
      fact.name == "norm" && (norm == "rmsnorm" || norm == "RMSNorm");
  const bool is_class =
      fact.name == "architecture" &&
      (architecture.starts_with("llama") || architecture == "qwen2");
  const int64_t heads = out.whole("heads", 0);
  const bool is_plain_head =
      fact.name == "head_dim" && heads > 0 && heads < (1 << 20) &&
      out.whole("head_dim", 0) < (1 << 20) &&
      out.whole("head_dim", 0) * heads == out.whole("hidden", 0);
  if ((found != llama.end() && found->second == fact.value) || is_norm ||
      (is_class && architecture != "llama4") || is_plain_head) {
    out.imply();
  } else if (found != llama.end() || fact.name == "norm" ||
             fact.name == "architecture") {
    out.lose(fact.name == "reduce_dtype"
                 ? "nanotron sends gradients as it adds them up"
                 : "nanotron's llama is not so");
  }
}

void write_degree(TargetWriter& out, const NamedFact& fact) {
  if (fact.value == Json(1)) {
    out.imply();
  } else if (fact.name == "cp") {
    out.put(kParallel + "context_parallel_size", fact.value);
  } else {
    out.lose("experts are not translated");
  }
}

constexpr FactWriter kWriters[] = {
    {"zero_stage", write_zero},
    {"precision", write_precision},
    {"schedule", write_schedule},
    {"optimizer", write_optimizer},
    {"lr_schedule", write_lr_schedule},
    {"wsd_style", write_wsd_style},
    {"wsd_steps", write_wsd_steps},
};

}  // namespace

void write_nanotron(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  const auto plain = plain_keys().find(name);
  if (plain != plain_keys().end()) {
    out.put(plain->second, fact.value);
  } else if (name == "accumulation") {
    out.put("tokens.batch_accumulation_per_replica", fact.value);
  } else if (name == "global_batch" || name == "decoupled_decay") {
    out.imply();  // micro * accumulation * dp; finish_nanotron() sees to it
  } else if (name == "clipping") {
    out.put("optimizer.clip_grad",
            out.real("clipping", 0) > 0 ? fact.value : Json());
  } else if (name == "sequence_parallel") {
    out.put(kParallel + "tp_mode",
            fact.value == Json(true) ? "REDUCE_SCATTER" : "ALL_REDUCE");
  } else if (name == "recompute" && fact.value == Json("full")) {
    out.put(kParallel + "recompute_layer", true);
  } else if (name == "recompute" && fact.value == Json("none")) {
    out.imply();
  } else if (name == "cp" || name == "ep" || name == "expert_tp") {
    write_degree(out, fact);
  } else if (name == "qkv_bias") {
    out.put(kModel + "attention_bias", fact.value);
  } else if (name == "decay_end") {
    out.imply();  // finish_nanotron() writes it
  } else if (!write_by_row(out, name, kWriters)) {
    write_of_class(out, fact);
  }
}

namespace {

// micro * accumulation * dp is the batch: where dp is not known, one replica
// makes the same batch.
void finish_batch(TargetWriter& out) {
  const int64_t global = out.whole("global_batch", 0);
  const char* const batch =
      "the batch is micro_batch_size * batch_accumulation_per_replica * dp";
  out.stand_in("tokens.micro_batch_size", 1, batch);
  const Json* const written = out.value("tokens.micro_batch_size");
  const int64_t micro =
      written->is_number_integer() ? written->get<int64_t>() : 1;
  const bool is_known = out.is_said("dp");
  out.stand_in(kParallel + "dp",
               1,
               global > 0 ? "with more replicas divide "
                            "batch_accumulation_per_replica by them, or give "
                            "--world"
                          : batch);
  if (!is_known && global > 0 && micro > 0 && global % micro == 0) {
    out.set("tokens.batch_accumulation_per_replica", global / micro);
  } else if (out.value("tokens.batch_accumulation_per_replica") == nullptr &&
             global > 0) {
    out.lose_fact("global_batch", batch);
  }
  out.stand_in("tokens.batch_accumulation_per_replica", 1, batch);
}

void finish_optimizer(TargetWriter& out) {
  const Json* name = out.value(kFactory + "name");
  if (name != nullptr && *name == Json("sgd")) {
    out.drop(kFactory + "adam", "sgd has no such number");
  } else {
    out.set(kFactory + "name", "adamW");
    out.stand_in(kFactory + "adam_beta1", 0.9, "AdamW needs it");
    out.stand_in(kFactory + "adam_beta2", 0.95, "AdamW needs it");
    out.stand_in(kFactory + "adam_eps", 1e-8, "AdamW needs it");
    out.set(kFactory + "torch_adam_is_fused", true);
  }
  out.set("optimizer.zero_stage", 0);
  out.stand_in("optimizer.weight_decay", 0.0, "nanotron needs it");
  out.set("optimizer.clip_grad", Json());
  out.set("optimizer.accumulate_grad_in_fp32", true);
}

void finish_schedule(TargetWriter& out) {
  out.stand_in(kScheduler + "learning_rate", 3e-4, "nanotron needs it");
  out.stand_in("tokens.train_steps", usual_steps(out), "nanotron needs it");
  out.set(kScheduler + "lr_warmup_style", "linear");
  out.set(kScheduler + "lr_warmup_steps", 0);
  const Json lr = *out.value(kScheduler + "learning_rate");
  if (plain_schedule(out.word("lr_schedule")) == "constant") {
    out.take(kScheduler + "min_decay_lr");
    out.set(kScheduler + "min_decay_lr", lr);
  }
  out.set(kScheduler + "min_decay_lr", 0.0);
  const int64_t steps = out.whole("steps", usual_steps(out));
  const int64_t end = out.whole("decay_end", steps);
  const int64_t warmup = out.whole("warmup_steps", 0);
  if (is_wsd(out)) {
    return;
  }
  if (end > warmup && warmup >= 0) {
    out.set(kScheduler + "lr_decay_steps", end - warmup);
  } else {
    out.lose_fact("decay_end", "it lies within the warm-up");
  }
}

void finish_model(TargetWriter& out) {
  const bool is_qwen = out.word("architecture") == "qwen2";
  out.set(kModel + (is_qwen ? "is_qwen2_config" : "is_llama_config"), true);
  stand_in_model(out,
                 {.layers = kModel + "num_hidden_layers",
                  .heads = kModel + "num_attention_heads",
                  .kv_heads = kModel + "num_key_value_heads",
                  .hidden = kModel + "hidden_size",
                  .ffn = kModel + "intermediate_size",
                  .vocabulary = kModel + "vocab_size"});
  out.stand_in(
      "tokens.sequence_length", usual_sequence(out), "nanotron needs it");
  out.set(kModel + "max_position_embeddings",
          Json(*out.value("tokens.sequence_length")));
  out.set("model.init_method.std", 0.02);
}

// That of the package 0.4: AdamW's numbers stand in the optimizer itself, and
// what only the repository's classes have is taken out.
void take_old_layout(TargetWriter& out) {
  const Json* name = out.value(kFactory + "name");
  if (name != nullptr && *name != Json("adamW")) {
    out.lose_fact("optimizer", "AdamW instead: nanotron 0.4 has no other");
  }
  out.take(kFactory + "name");
  for (const char* key :
       {"adam_beta1", "adam_beta2", "adam_eps", "torch_adam_is_fused"}) {
    out.rename(kFactory + key, std::string("optimizer.") + key);
  }
  out.stand_in("optimizer.adam_beta1", 0.9, "AdamW needs it");
  out.stand_in("optimizer.adam_beta2", 0.95, "AdamW needs it");
  out.stand_in("optimizer.adam_eps", 1e-8, "AdamW needs it");
  out.set("optimizer.torch_adam_is_fused", true);
  if (out.word("architecture") == "qwen2") {
    out.lose_fact("architecture", "llama instead: nanotron 0.4 has no qwen2");
  }
  // Its Starcoder2 has a base of the angles, its llama 10000.
  const std::string theta = kModel + "rope_theta";
  for (const std::string& key : out.keys()) {
    if (nanotron_old_keys().find(key) != nullptr && key != theta) {
      continue;
    }
    const KeyRow* row = nanotron_keys().find(key);
    if (row != nullptr && dump_json(*out.value(key)) == row->default_value) {
      out.take(key);
    } else {
      out.drop(key, "nanotron 0.4 has no such key");
    }
  }
  out.set(kModel + "is_llama_config", true);
  out.set("tokenizer.tokenizer_max_length", Json());
}

}  // namespace

void finish_nanotron(TargetWriter& out) {
  finish_batch(out);
  finish_optimizer(out);
  finish_schedule(out);
  finish_model(out);
  out.set(kParallel + "tp", 1);
  out.set(kParallel + "pp", 1);
  out.stand_in("general.project", "project", "a name");
  out.stand_in("general.run", "run", "a name");
  out.stand_in("checkpoints.checkpoints_path", "checkpoints", "a folder");
  out.stand_in("checkpoints.checkpoint_interval", 1000, "steps between saves");
  out.set("logging.iteration_step_info_interval", 1);
  const bool is_old = out.version() == "0.4";
  if (is_old) {
    take_old_layout(out);
  }
  out.leave_open("tokenizer.tokenizer_name_or_path", "the tokenizer");
  out.leave_open(is_old ? "data.dataset" : "data_stages",
                 "without it it trains on dummy data");
}

}  // namespace triax
