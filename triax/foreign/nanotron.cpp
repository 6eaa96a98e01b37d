// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/nanotron.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "triax/foreign/parse_yaml.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

const std::string kModel = "model.model_config.";

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char byte) {
    return static_cast<char>(std::toupper(byte));
  });
  return text;
}

void set_layout(const ForeignConfig& config, RunFacts& facts) {
  const std::string p = "parallelism.";
  facts.tp = whole_at(config, p + "tp");
  facts.pp = whole_at(config, p + "pp");
  facts.dp = whole_at(config, p + "dp");
  facts.cp = or_default<int64_t>(whole_at(config, p + "context_parallel_size"),
                                 config,
                                 p + "context_parallel_size",
                                 1);
  facts.ep = or_default<int64_t>(whole_at(config, p + "expert_parallel_size"),
                                 config,
                                 p + "expert_parallel_size",
                                 1);
  facts.expert_tp = whole_at(config, p + "expert_tensor_parallel_size");
  const Word mode = or_default<std::string>(
      word_at(config, p + "tp_mode"), config, p + "tp_mode", "ALL_REDUCE");
  facts.sequence_parallel = {upper(*mode) == "REDUCE_SCATTER",
                             mode.key,
                             mode.position,
                             mode.is_default};
  facts.dp_includes_cp = default_fact(config, "", false);
}

void set_batch(const ForeignConfig& config, RunFacts& facts) {
  facts.microbatch = whole_at(config, "tokens.micro_batch_size");
  facts.accumulation =
      whole_at(config, "tokens.batch_accumulation_per_replica");
}

void set_pipeline(const ForeignConfig& config, RunFacts& facts) {
  const Flag recomputes = flag_at(config, "parallelism.recompute_layer");
  facts.recompute = {recomputes.value_or(false) ? "full" : "none",
                     "parallelism.recompute_layer",
                     recomputes.position,
                     !recomputes};
  if (facts.pp.value_or(1) <= 1) {
    return;
  }
  const Word engine =
      or_default<std::string>(word_at(config, "parallelism.pp_engine"),
                              config,
                              "parallelism.pp_engine",
                              "afab");
  facts.schedule = word_fact(engine, *engine == "afab" ? "gpipe" : *engine);
  facts.chunks = default_fact<int64_t>(config, engine.key, 1);
  // Blocks are spread by their costs, so stages may differ by a layer.
  facts.has_custom_stages = default_fact(config, "", true);
}

void set_precision(const ForeignConfig& config, RunFacts& facts) {
  const Word type = or_default<std::string>(
      word_at(config, "model.dtype"), config, "model.dtype", "bfloat16");
  if (*type == "bfloat16" || *type == "float16" || *type == "float32") {
    facts.precision = word_fact(type,
                                *type == "bfloat16"  ? "bf16"
                                : *type == "float16" ? "fp16"
                                                     : "fp32");
  }
  facts.zero_stage = whole_at(config, "optimizer.zero_stage");
  if (facts.zero_stage && *facts.zero_stage > 1) {
    facts.zero_stage.value = 1;
  }
  const Flag exact = flag_at(config, "optimizer.accumulate_grad_in_fp32");
  if (exact && *exact) {
    facts.reduce_dtype = {"fp32", exact.key, exact.position, false};
  }
}

void set_model(const ForeignConfig& config, RunFacts& facts) {
  facts.sequence = whole_at(config, "tokens.sequence_length");
  facts.layers = whole_at(config, kModel + "num_hidden_layers");
  facts.hidden = whole_at(config, kModel + "hidden_size");
  facts.ffn = whole_at(config, kModel + "intermediate_size");
  facts.heads = whole_at(config, kModel + "num_attention_heads");
  facts.kv_heads = whole_at(config, kModel + "num_key_value_heads");
  if (!facts.kv_heads && nanotron_model_class(config) != "starcoder2") {
    facts.kv_heads = facts.heads;
  }
  const Whole vocabulary = whole_at(config, kModel + "vocab_size");
  if (vocabulary && *vocabulary > 0) {
    facts.vocabulary = vocabulary;
  }
  facts.vocabulary_multiple = or_default<int64_t>(
      whole_at(config, "model.make_vocab_size_divisible_by"),
      config,
      "model.make_vocab_size_divisible_by",
      1);
  facts.experts = whole_at(config, kModel + "moe_config.num_experts");
  facts.tied = flag_at(config, kModel + "tie_word_embeddings");
  facts.activation = word_at(config, kModel + "hidden_act");
}

void set_training(const ForeignConfig& config, RunFacts& facts) {
  const std::string o = "optimizer.";
  const std::string schedule = o + "learning_rate_scheduler.";
  const std::string adam =
      is_old_nanotron(config) ? o : o + "optimizer_factory.";
  facts.optimizer = word_at(config, o + "optimizer_factory.name");
  if (facts.optimizer) {
    facts.optimizer.value =
        *facts.optimizer == "adamW" ? "adamw" : *facts.optimizer;
  } else {
    facts.optimizer = default_fact<std::string>(config, "", "adamw");
  }
  facts.beta1 = real_at(config, adam + "adam_beta1");
  facts.beta2 = real_at(config, adam + "adam_beta2");
  facts.adam_eps = real_at(config, adam + "adam_eps");
  facts.weight_decay = real_at(config, o + "weight_decay");
  facts.clipping = real_at(config, o + "clip_grad");
  if (!facts.clipping && find_value(config.table, o + "clip_grad") != nullptr) {
    facts.clipping = {0.0,
                      o + "clip_grad",
                      find_value(config.table, o + "clip_grad")->position,
                      false};
  }
  facts.lr = real_at(config, schedule + "learning_rate");
  facts.min_lr = real_at(config, schedule + "min_decay_lr");
  facts.warmup_steps = whole_at(config, schedule + "lr_warmup_steps");
  facts.decay_steps = whole_at(config, schedule + "lr_decay_steps");
  facts.lr_schedule = word_at(config, schedule + "lr_decay_style");
  facts.steps = whole_at(config, "tokens.train_steps");
  facts.seed = whole_at(config, "general.seed");
  const ConfigEntry* profiler = find_entry(config.table, "profiler");
  facts.profiles = {profiler != nullptr && std::holds_alternative<ConfigTable>(
                                               profiler->value.data),
                    "profiler",
                    profiler == nullptr ? Position{config.file, 0, 0}
                                        : profiler->key_position,
                    profiler == nullptr};
}

}  // namespace

int nanotron_likeness(std::string_view file_name, std::string_view text) {
  if (!file_name.ends_with(".yaml") && !file_name.ends_with(".yml")) {
    return 0;
  }
  constexpr std::array<std::string_view, 6> kSections = {"general:",
                                                         "parallelism:",
                                                         "model:",
                                                         "tokens:",
                                                         "data_stages:",
                                                         "checkpoints:"};
  const auto count = std::ranges::count_if(
      kSections, [&](std::string_view line) { return has_line(text, line); });
  const bool has_own = has_line(text, "parallelism:");
  // Other programs' configs are YAML too.
  return has_own || count >= 3
             ? static_cast<int>(std::min<long>(count * 20, 95))
             : 0;
}

ForeignConfig read_nanotron(std::string_view text, const std::string& file) {
  ParsedYaml parsed = parse_yaml(text, file);
  return {System::kNanotron,
          file,
          std::move(parsed.table),
          std::move(parsed.problems)};
}

bool is_old_nanotron(const ForeignConfig& config) {
  const bool has_new =
      find_value(config.table, "data_stages") != nullptr ||
      find_value(config.table, "optimizer.optimizer_factory") != nullptr;
  return !has_new &&
         (find_value(config.table, "data") != nullptr ||
          find_value(config.table, "optimizer.adam_eps") != nullptr);
}

std::string nanotron_model_class(const ForeignConfig& config) {
  const ConfigValue* value = find_value(config.table, "model.model_config");
  const auto* table =
      value == nullptr ? nullptr : std::get_if<ConfigTable>(&value->data);
  for (const ConfigEntry& entry : table == nullptr ? ConfigTable{} : *table) {
    const std::string_view key = entry.key;
    if (key.starts_with("is_") && key.ends_with("_config") && key.size() > 10) {
      return std::string(key.substr(3, key.size() - 10));
    }
  }
  return "llama";
}

RunFacts nanotron_facts(const ForeignConfig& config) {
  RunFacts facts;
  facts.system = System::kNanotron;
  facts.file = config.file;
  set_layout(config, facts);
  set_batch(config, facts);
  set_pipeline(config, facts);
  set_precision(config, facts);
  set_model(config, facts);
  set_training(config, facts);
  return facts;
}

}  // namespace triax
