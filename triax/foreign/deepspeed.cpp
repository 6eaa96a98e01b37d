// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/deepspeed.h"

#include <algorithm>
#include <cctype>

#include "triax/foreign/hjson.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

bool is_base64_of_table(std::string_view text) {
  while (!text.empty() &&
         std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  // '{' and a quote, a blank, a line's end or '}' come first in the bytes.
  const bool begins_table = text.starts_with("ey") || text.starts_with("ew") ||
                            text.starts_with("e3");
  return begins_table && text.size() >= 4 &&
         std::all_of(text.begin(), text.end(), [](char byte) {
           return std::isalnum(static_cast<unsigned char>(byte)) ||
                  byte == '-' || byte == '_' || byte == '+' || byte == '/' ||
                  byte == '=';
         });
}

Problem root_problem(const ConfigValue& root, std::string_view text) {
  Problem problem{Severity::kError, "syntax", "", root.position, "", ""};
  if (is_base64_of_table(text)) {
    problem.message =
        "the file holds base64, which DeepSpeed decodes where it is given as "
        "the argument, not in a file";
    problem.fix = "decode it: base64 -d FILE > ds_config.json";
  } else {
    problem.message = "the file holds " + kind_of(root) +
                      " where a DeepSpeed config is a table of keys";
    problem.fix = "write { \"train_batch_size\": …, … }";
  }
  problem.effect = Effect::kRefused;
  return problem;
}

// The text without what stands in inner tables and lists.
std::string top_level(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool has_braces = first != std::string_view::npos && text[first] == '{';
  std::string result;
  int depth = 0;
  char quote = '\0';
  for (const char byte : text) {
    if (quote != '\0') {
      quote = byte == quote ? '\0' : quote;
    } else if (byte == '"') {
      quote = byte;
    }
    depth += quote == '\0' && (byte == '{' || byte == '[');
    depth -= quote == '\0' && (byte == '}' || byte == ']');
    if (depth <= (has_braces ? 1 : 0)) {
      result += byte;
    }
  }
  return result;
}

bool has_key(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos;
       at = text.find(key, at + 1)) {
    size_t next = at + key.size();
    next += next < text.size() && (text[next] == '"' || text[next] == '\'');
    next = text.find_first_not_of(" \t", next);
    if (next != std::string_view::npos && text[next] == ':') {
      return true;
    }
  }
  return false;
}

Flag is_enabled(const ForeignConfig& config, const std::string& section) {
  return flag_at(config, section + ".enabled");
}

Word precision_of(const ForeignConfig& config) {
  for (const char* section : {"bf16", "bfloat16", "fp16"}) {
    const Flag enabled = is_enabled(config, section);
    if (enabled && *enabled) {
      const std::string name = section == std::string("fp16") ? "fp16" : "bf16";
      return {name, enabled.key, enabled.position, false};
    }
    if (word_at(config, std::string(section) + ".enabled")) {
      return {};  // "auto"
    }
  }
  return default_fact<std::string>(config, "fp16.enabled", "fp32");
}

Whole stage_of(const ForeignConfig& config) {
  const Flag flag = flag_at(config, "zero_optimization");
  if (flag) {
    return {*flag ? 1 : 0, flag.key, flag.position, false};
  }
  if (find_value(config.table, "zero_optimization.stage") != nullptr) {
    return whole_at(config, "zero_optimization.stage");
  }
  return default_fact<int64_t>(config, "zero_optimization.stage", 0);
}

Word offload_of(const ForeignConfig& config,
                const std::string& section,
                const std::string& old_key) {
  const Word device = word_at(config, section + ".device");
  if (device) {
    return *device == "auto" ? Word{} : device;
  }
  const Flag old = flag_at(config, old_key);
  if (old && *old) {
    return {"cpu", old.key, old.position, false};
  }
  return default_fact<std::string>(config, section + ".device", "none");
}

// Whatever shows where a step's time goes.
Flag profile_of(const ForeignConfig& config) {
  const Flag breakdown = flag_at(config, "wall_clock_breakdown");
  const Flag messages = is_enabled(config, "comms_logger");
  for (const Flag& fact : {breakdown, messages}) {
    if (fact.value_or(false)) {
      return fact;
    }
  }
  return or_default(is_enabled(config, "flops_profiler"),
                    config,
                    "flops_profiler.enabled",
                    false);
}

template <class T>
Fact<T> first_item(const ForeignConfig& config,
                   const std::string& path,
                   size_t index) {
  const ConfigValue* value = find_value(config.table, path);
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  if (items == nullptr || index >= items->size()) {
    return {};
  }
  const auto* real = std::get_if<T>(&(*items)[index].data);
  return real == nullptr ? Fact<T>{}
                         : Fact<T>{*real, path, value->position, false};
}

void add_optimizer(const ForeignConfig& config, RunFacts& facts) {
  facts.optimizer = word_at(config, "optimizer.type");
  if (facts.optimizer) {
    facts.optimizer.value = lower(*facts.optimizer);
  }
  facts.lr = real_at(config, "optimizer.params.lr");
  facts.weight_decay = real_at(config, "optimizer.params.weight_decay");
  facts.adam_eps = real_at(config, "optimizer.params.eps");
  facts.beta1 = first_item<double>(config, "optimizer.params.betas", 0);
  facts.beta2 = first_item<double>(config, "optimizer.params.betas", 1);
  facts.lr_schedule = word_at(config, "scheduler.type");
  facts.warmup_steps = whole_at(config, "scheduler.params.warmup_num_steps");
  facts.decay_steps = whole_at(config, "scheduler.params.total_num_steps");
  facts.steps = facts.decay_steps;
}

}  // namespace

ForeignConfig read_deepspeed(std::string_view text, const std::string& file) {
  ForeignConfig config;
  config.system = System::kDeepSpeed;
  config.file = file;
  ParsedHjson parsed = parse_hjson(text, file);
  if (parsed.problem) {
    parsed.problem->effect = Effect::kRefused;
    config.problems.push_back(*parsed.problem);
  } else if (auto* table = std::get_if<ConfigTable>(&parsed.root.data)) {
    config.table = std::move(*table);
  } else {
    config.problems.push_back(root_problem(parsed.root, text));
  }
  return config;
}

int deepspeed_likeness(std::string_view file_name, std::string_view text) {
  const std::string head = top_level(text.substr(0, 64 << 10));
  int likeness = 0;
  for (const std::string_view key : {"zero_optimization",
                                     "train_micro_batch_size_per_gpu",
                                     "gradient_accumulation_steps",
                                     "train_batch_size",
                                     "steps_per_print",
                                     "wall_clock_breakdown"}) {
    likeness += has_key(head, key) ? 30 : 0;
  }
  for (const std::string_view key :
       {"fp16", "bf16", "optimizer", "scheduler", "gradient_clipping"}) {
    likeness += has_key(head, key) ? 10 : 0;
  }
  const std::string name = lower(file_name);
  const bool is_json = name.ends_with(".json") || name.ends_with(".hjson");
  const bool is_named = name.find("ds_") != std::string::npos ||
                        name.find("deepspeed") != std::string::npos ||
                        name.find("zero") != std::string::npos;
  likeness += is_json && is_named ? 50 : is_json && likeness > 0 ? 10 : 0;
  const bool is_other = name.ends_with(".toml") || name.ends_with(".yaml") ||
                        name.ends_with(".yml") || name.ends_with(".sh");
  return is_other ? 0 : std::min(likeness, 100);
}

RunFacts deepspeed_facts(const ForeignConfig& config) {
  RunFacts facts;
  facts.system = System::kDeepSpeed;
  facts.file = config.file;
  if (!is_elastic(config)) {
    facts.global_batch = whole_at(config, "train_batch_size");
    facts.microbatch = whole_at(config, "train_micro_batch_size_per_gpu");
    facts.accumulation = whole_at(config, "gradient_accumulation_steps");
  }
  facts.zero_stage = stage_of(config);
  facts.offload_optimizer = offload_of(config,
                                       "zero_optimization.offload_optimizer",
                                       "zero_optimization.cpu_offload");
  facts.offload_parameters = offload_of(config,
                                        "zero_optimization.offload_param",
                                        "zero_optimization.cpu_offload_param");
  facts.bucket_elements =
      whole_at(config, "zero_optimization.reduce_bucket_size");
  facts.overlap_reduce = flag_at(config, "zero_optimization.overlap_comm");
  facts.precision = precision_of(config);
  facts.loss_scale = real_at(config, "fp16.loss_scale");
  facts.reduce_dtype = word_at(config, "communication_data_type");
  const Whole tp = whole_at(config, "tensor_parallel.autotp_size");
  facts.tp = tp && *tp > 0 ? tp : Whole{};
  facts.cp = whole_at(config, "sequence_parallel_size");
  if (facts.cp) {
    facts.dp = whole_at(config, "data_parallel_size");
  }
  facts.vocabulary = whole_at(config, "vocabulary_size");
  if (find_value(config.table, "gradient_clipping") == nullptr) {
    facts.clipping = default_fact(config, "gradient_clipping", 1.0);
  } else {
    facts.clipping = real_at(config, "gradient_clipping");
  }
  facts.profiles = profile_of(config);
  add_optimizer(config, facts);
  return facts;
}

bool is_elastic(const ForeignConfig& config) {
  return is_enabled(config, "elasticity").value_or(false);
}

const std::vector<std::string_view>& trainer_filled_paths() {
  // transformers/integrations/deepspeed.py, HfTrainerDeepSpeedConfig, and
  // accelerate/accelerator.py, _prepare_deepspeed().
  static const std::vector<std::string_view> paths = {
      "train_batch_size",
      "train_micro_batch_size_per_gpu",
      "gradient_accumulation_steps",
      "gradient_clipping",
      "optimizer.params.lr",
      "optimizer.params.betas",
      "optimizer.params.eps",
      "optimizer.params.weight_decay",
      "optimizer.type",
      "scheduler.type",
      "scheduler.params.warmup_min_lr",
      "scheduler.params.warmup_max_lr",
      "scheduler.params.warmup_num_steps",
      "scheduler.params.total_num_steps",
      "fp16.enabled",
      "bf16.enabled",
      "bfloat16.enabled",
      "zero_optimization.stage",
      "zero_optimization.reduce_bucket_size",
      "zero_optimization.stage3_prefetch_bucket_size",
      "zero_optimization.stage3_param_persistence_threshold",
      "zero_optimization.stage3_max_live_parameters",
      "zero_optimization.stage3_max_reuse_distance",
      "zero_optimization.stage3_gather_16bit_weights_on_model_save",
      "zero_optimization.offload_optimizer.device",
      "zero_optimization.offload_optimizer.nvme_path",
      "zero_optimization.offload_param.device",
      "zero_optimization.offload_param.nvme_path",
  };
  return paths;
}

}  // namespace triax
