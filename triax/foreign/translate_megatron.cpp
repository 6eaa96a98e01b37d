// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

const std::map<std::string, const char*>& plain_flags() {
  static const std::map<std::string, const char*> flags = {
      {"tp", "tensor-model-parallel-size"},
      {"pp", "pipeline-model-parallel-size"},
      {"cp", "context-parallel-size"},
      {"first_stage_layers", "decoder-first-pipeline-num-layers"},
      {"last_stage_layers", "decoder-last-pipeline-num-layers"},
      {"initial_loss_scale", "initial-loss-scale"},
      {"min_loss_scale", "min-loss-scale"},
      {"loss_scale_window", "loss-scale-window"},
      {"microbatch", "micro-batch-size"},
      {"global_batch", "global-batch-size"},
      {"bucket_elements", "ddp-bucket-size"},
      {"layers", "num-layers"},
      {"hidden", "hidden-size"},
      {"ffn", "ffn-hidden-size"},
      {"heads", "num-attention-heads"},
      {"head_dim", "kv-channels"},
      {"vocabulary", "vocab-size"},
      {"experts", "num-experts"},
      {"experts_per_token", "moe-router-topk"},
      {"sequence", "seq-length"},
      {"max_positions", "max-position-embeddings"},
      {"norm_eps", "norm-epsilon"},
      {"init_std", "init-method-std"},
      {"hidden_dropout", "hidden-dropout"},
      {"attention_dropout", "attention-dropout"},
      {"lr", "lr"},
      {"min_lr", "min-lr"},
      {"weight_decay", "weight-decay"},
      {"clipping", "clip-grad"},
      {"beta1", "adam-beta1"},
      {"beta2", "adam-beta2"},
      {"adam_eps", "adam-eps"},
      {"momentum", "sgd-momentum"},
      {"warmup_steps", "lr-warmup-iters"},
      {"steps", "train-iters"},
      {"seed", "seed"},
  };
  return flags;
}

// A switch that is on where the fact is `when`, and off as its default.
struct Switch {
  bool when;
  const char* flag;
};

const std::map<std::string, Switch>& switches() {
  static const std::map<std::string, Switch> table = {
      {"sequence_parallel", {true, "sequence-parallel"}},
      {"tied", {false, "untie-embeddings-and-output-weights"}},
      {"gated", {true, "swiglu"}},
      {"linear_bias", {false, "disable-bias-linear"}},
      {"qk_norm", {true, "qk-layernorm"}},
  };
  return table;
}

void write_zero(TargetWriter& out) {
  const int64_t stage = out.whole("zero_stage", 0);
  if (stage == 0) {
    out.imply();
  } else if (stage == 1) {
    out.put("use-distributed-optimizer", true);
  } else {
    out.put("use-megatron-fsdp", true);
    out.set("use-distributed-optimizer", true);
    out.set("data-parallel-sharding-strategy",
            stage == 2 ? "optim_grads" : "optim_grads_params");
    // What its assertions ask for beside it.
    out.set("no-gradient-accumulation-fusion", true);
    out.set("ckpt-format", "fsdp_dtensor");
  }
}

void write_overlap(TargetWriter& out, const NamedFact& fact) {
  const bool is_gather = fact.name == "overlap_gather";
  if (fact.value != Json(true)) {
    out.imply();
  } else if (is_gather && (out.whole("zero_stage", 0) == 0 ||
                           !out.flag("overlap_reduce", false))) {
    out.lose("it goes with --overlap-grad-reduce and a distributed optimizer");
  } else {
    out.put(is_gather ? "overlap-param-gather" : "overlap-grad-reduce", true);
  }
}

void write_precision(TargetWriter& out) {
  const std::string precision = product_precision(out);
  if (precision == "fp32") {
    out.imply();
  } else if (precision == "fp8") {
    out.put("bf16", true);
    out.lose("bf16 instead; choose --fp8-format yourself");
  } else {
    out.put(precision, true);
  }
}

void write_recompute(TargetWriter& out) {
  const std::string recompute = out.word("recompute");
  if (recompute == "full") {
    out.put("recompute-granularity", "full");
    out.set("recompute-method", "uniform");
    out.set("recompute-num-layers", 1);
  } else if (recompute == "selective") {
    out.put("recompute-granularity", "selective");
    if (out.from() != System::kMegatron) {
      out.lose("here it means the attention's core alone");
    }
  } else {
    out.imply();
  }
}

// Its Adam decouples weight decay, and no argument changes that.
void write_optimizer(TargetWriter& out) {
  const std::string optimizer = out.word("optimizer");
  if (is_adam(optimizer)) {
    out.put("optimizer", "adam");
    if (!out.flag("decoupled_decay", optimizer == "adamw") &&
        out.real("weight_decay", 1) != 0) {
      out.lose(
          "Megatron-LM's adam is AdamW, whose weight decay is not part of the "
          "gradient");
    }
  } else if (optimizer == "sgd") {
    out.put("optimizer", optimizer);
  } else {
    out.lose("choose --optimizer and its numbers yourself");
  }
}

void write_schedule(TargetWriter& out) {
  const std::string schedule = plain_schedule(out.word("lr_schedule"));
  if (schedule.empty()) {
    out.lose("choose --lr-decay-style yourself");
  } else {
    out.put("lr-decay-style", schedule);
  }
}

void write_kv_heads(TargetWriter& out) {
  const int64_t kv_heads = out.whole("kv_heads", 0);
  if (kv_heads == out.whole("heads", 0)) {
    out.imply();
  } else {
    out.put("num-query-groups", kv_heads);
    out.set("group-query-attention", true);
  }
}

void write_positions(TargetWriter& out, const NamedFact& fact) {
  out.put("position-embedding-type",
          fact.value == Json(true) ? "learned_absolute" : "rope");
}

void write_theta(TargetWriter& out) {
  const double theta = out.real("rope_theta", 10000);
  if (theta == std::floor(theta) && theta < 1e15) {
    out.put("rotary-base", static_cast<int64_t>(theta));
  } else {
    out.lose("--rotary-base takes whole numbers");
  }
}

void write_qkv_bias(TargetWriter& out, const NamedFact& fact) {
  if (fact.value == Json(true) && !out.flag("linear_bias", true)) {
    out.put("add-qkv-bias", true);
  } else {
    out.imply();
  }
}

void write_architecture(TargetWriter& out) {
  const std::string name = out.word("architecture");
  if (name == "llama" || name == "llama3" || name == "gpt2" ||
      name == "qwen2" || name == "qwen3") {
    out.imply();  // what is its own is said by the other facts
  } else {
    out.lose("what is its own has no translation");
  }
}

void write_experts(TargetWriter& out, const NamedFact& fact) {
  const bool is_tp = fact.name == "expert_tp";
  if (out.whole("experts", 0) < 1) {
    fact.value == Json(1) ? out.imply() : out.lose("there are no experts");
  } else {
    out.put(
        is_tp ? "expert-tensor-parallel-size" : "expert-model-parallel-size",
        fact.value);
  }
}

void write_chunks(TargetWriter& out, const NamedFact& fact) {
  if (fact.value == Json(1)) {
    out.imply();
  } else if (out.whole("pp", 1) < 2) {
    out.lose("without a pipeline it does nothing");
  } else {
    out.put("num-virtual-stages-per-pipeline-rank", fact.value);
  }
}

void write_pipeline_schedule(TargetWriter& out) {
  const std::string schedule = out.word("schedule");
  if (schedule == "1f1b" || out.whole("pp", 1) < 2 ||
      (schedule == "interleaved" && out.whole("chunks", 1) > 1)) {
    out.imply();
  } else {
    out.lose("Megatron-LM runs 1f1b, interleaved with chunks");
  }
}

void write_accumulation(TargetWriter& out) {
  if (out.is_said("global_batch")) {
    out.imply();
  } else if (out.whole("accumulation", 1) > 1) {
    out.lose(
        "--global-batch-size is micro-batch-size * this * dp, and nobody says "
        "dp; give --world");
  } else {
    out.imply();
  }
}

// Words and numbers that become a flag of another kind; false: none of them.
bool write_word(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  if (name == "norm") {
    const bool is_rms =
        fact.value == Json("rmsnorm") || fact.value == Json("RMSNorm");
    out.put("normalization", is_rms ? "RMSNorm" : "LayerNorm");
  } else if (name == "loss_scale") {
    fact.value == Json(0.0) ? out.imply() : out.put("loss-scale", fact.value);
  } else if (name == "reduce_dtype" && fact.value == Json("bf16")) {
    out.put("grad-reduce-in-bf16", true);
  } else if (name == "reduce_dtype" && fact.value == Json("fp32")) {
    out.imply();
  } else if (name == "offload_optimizer" && fact.value == Json("cpu")) {
    out.put("optimizer-cpu-offload", true);
    out.set("use-precision-aware-optimizer", true);
    out.set("use-distributed-optimizer", true);
  } else if (name == "decay_end") {
    out.put("lr-decay-iters", fact.value);
  } else {
    return false;
  }
  return true;
}

constexpr FactWriter kWriters[] = {
    {"zero_stage", write_zero},
    {"precision", write_precision},
    {"recompute", write_recompute},
    {"optimizer", write_optimizer},
    {"lr_schedule", write_schedule},
    {"kv_heads", write_kv_heads},
    {"rope_theta", write_theta},
    {"architecture", write_architecture},
    {"schedule", write_pipeline_schedule},
    {"accumulation", write_accumulation},
};

}  // namespace

void write_megatron(TargetWriter& out, const NamedFact& fact) {
  const std::string& name = fact.name;
  const auto plain = plain_flags().find(name);
  const auto toggle = switches().find(name);
  if (plain != plain_flags().end()) {
    out.put(plain->second, fact.value);
  } else if (toggle != switches().end()) {
    if (fact.value == Json(toggle->second.when)) {
      out.put(toggle->second.flag, true);
    } else {
      out.imply();
    }
  } else if (name == "dp" || name == "decoupled_decay") {
    out.imply();  // the world's, and the optimizer's
  } else if (name == "ep" || name == "expert_tp") {
    write_experts(out, fact);
  } else if (name == "overlap_reduce" || name == "overlap_gather") {
    write_overlap(out, fact);
  } else if (name == "chunks") {
    write_chunks(out, fact);
  } else if (name == "learned_positions") {
    write_positions(out, fact);
  } else if (name == "qkv_bias") {
    write_qkv_bias(out, fact);
  } else if (!write_word(out, fact)) {
    write_by_row(out, name, kWriters);
  }
}

namespace {

// Its stages and chunks are equal but for the first and the last stage.
void finish_stages(TargetWriter& out) {
  const int64_t layers = out.whole("layers", 0);
  const int64_t pp = out.whole("pp", 1);
  const int64_t chunks = out.whole("chunks", 1);
  const bool is_known = layers > 0 && layers < (1 << 20) && pp > 1 &&
                        pp < (1 << 20) && chunks > 0 && chunks < (1 << 20) &&
                        !out.is_said("first_stage_layers") &&
                        !out.is_said("last_stage_layers");
  if (!is_known || layers % (pp * chunks) == 0) {
    return;
  }
  out.drop("num-virtual-stages-per-pipeline-rank",
           "the layers of a stage do not split into equal chunks");
  if (layers % pp != 0 && layers >= pp) {
    const int64_t more = layers - (pp - 1) * (layers / pp + 1);
    out.set("decoder-first-pipeline-num-layers",
            more > 0 ? more : layers - (pp - 1) * (layers / pp));
    out.lose_fact("pp", "its stages are equal but for the first here");
  }
}

// It ends before the rate's decay does.
void finish_warmup(TargetWriter& out) {
  const int64_t end = out.whole("decay_end", out.whole("steps", 0));
  if (end > 0 && out.whole("warmup_steps", 0) >= end) {
    out.take("lr-warmup-iters");
    out.set("lr-warmup-iters", end - 1);
    out.lose_fact("warmup_steps",
                  "one step less than the decay's end, which Megatron-LM asks "
                  "for");
  }
}

}  // namespace

void finish_megatron(TargetWriter& out) {
  finish_stages(out);
  finish_warmup(out);
  if (const Json* sequence = out.value("seq-length")) {
    if (!out.flag("learned_positions", false)) {
      out.set("max-position-embeddings", Json(*sequence));
    }
  }
  for (const char* flag : {"num-layers",
                           "hidden-size",
                           "num-attention-heads",
                           "seq-length",
                           "max-position-embeddings",
                           "micro-batch-size",
                           "train-iters",
                           "lr"}) {
    out.leave_open(flag, "Megatron-LM stops without it");
  }
  // validate_args() looks at it, by what the kernels' order needs.
  if (out.value("use-megatron-fsdp") != nullptr) {
    out.remind("the variable CUDA_DEVICE_MAX_CONNECTIONS: not 1");
  } else if (out.whole("tp", 1) > 1 || out.whole("cp", 1) > 1) {
    out.remind("the variable CUDA_DEVICE_MAX_CONNECTIONS: 1");
  }
  out.leave_open("data-path", "the tokens in Megatron-LM's own format");
  out.leave_open("tokenizer-type", "and what it needs beside it");
}

}  // namespace triax
