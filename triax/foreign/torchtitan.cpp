// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/torchtitan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "triax/config/parse_toml.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

std::string_view default_of(const std::string& key) {
  const KeyRow* row = torchtitan_keys().find(key);
  return row == nullptr ? "" : row->default_value;
}

/// A number's fact, or the default of its row where that is one.
template <class T>
Fact<T> or_row(Fact<T> fact,
               const ForeignConfig& config,
               const std::string& key) {
  const std::string_view text = default_of(key);
  T value = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec != std::errc()
             ? fact
             : or_default(std::move(fact), config, key, value);
}

Whole whole_or_default(const ForeignConfig& config, const std::string& key) {
  return or_row(whole_at(config, key), config, key);
}

Real real_or_default(const ForeignConfig& config, const std::string& key) {
  return or_row(real_at(config, key), config, key);
}

Word word_or_default(const ForeignConfig& config, const std::string& key) {
  return or_default(
      word_at(config, key), config, key, std::string(default_of(key)));
}

void set_layout(const ForeignConfig& config, RunFacts& facts) {
  const std::string p = "parallelism.";
  facts.tp = whole_or_default(config, p + "tensor_parallel_degree");
  facts.pp = whole_or_default(config, p + "pipeline_parallel_degree");
  facts.cp = whole_or_default(config, p + "context_parallel_degree");
  facts.ep = whole_or_default(config, p + "expert_parallel_degree");
  facts.expert_tp =
      whole_or_default(config, p + "expert_tensor_parallel_degree");
  const Whole shards =
      whole_or_default(config, p + "data_parallel_shard_degree");
  const Whole replicas =
      whole_or_default(config, p + "data_parallel_replicate_degree");
  if (shards && *shards >= 1 && replicas && *replicas >= 1 &&
      *shards < (1 << 20) && *replicas < (1 << 20)) {
    facts.dp = shards;
    facts.dp.value = *shards * *replicas;
    facts.dp_shards = shards;
  }
  facts.dp_includes_cp = default_fact(config, "", true);
  facts.sequence_parallel = default_fact(config, "", facts.tp.value_or(1) > 1);
}

// Under pp a local batch is cut into the pipeline's microbatches, and the
// global batch counts whole local ones: that is a rule of TorchTitan's own.
void set_batch(const ForeignConfig& config, RunFacts& facts) {
  const Whole local = whole_or_default(config, "training.local_batch_size");
  const Whole global = whole_at(config, "training.global_batch_size");
  if (facts.pp.value_or(1) > 1) {
    const Whole size = whole_or_default(
        config, "parallelism.pipeline_parallel_microbatch_size");
    facts.microbatch = size;
    if (local && size && *size > 0 && *local % *size == 0) {
      facts.accumulation = local;
      facts.accumulation.value = *local / *size;
    }
    return;
  }
  facts.microbatch = local;
  if (global && *global > 0) {
    facts.global_batch = global;
  }
}

// FSDP shards all three states; where it keeps the gathered parameters after
// the forward pass it is as ZeRO 2.
void set_zero(const ForeignConfig& config, RunFacts& facts) {
  const Word reshard =
      word_or_default(config, "parallelism.fsdp_reshard_after_forward");
  const bool is_sharded =
      !facts.dp_shards || *facts.dp_shards > 1 || facts.cp.value_or(1) > 1;
  const bool keeps = *reshard == "never" ||
                     (*reshard == "default" && facts.pp.value_or(1) > 1);
  facts.zero_stage = default_fact<int64_t>(config,
                                           reshard.key,
                                           !is_sharded ? 0
                                           : keeps     ? 2
                                                       : 3);
  const bool offloads = torchtitan_flag(config, "training.enable_cpu_offload");
  const Flag flag = flag_at(config, "training.enable_cpu_offload");
  facts.offload_optimizer = {offloads ? "cpu" : "none",
                             "training.enable_cpu_offload",
                             flag.position,
                             !flag};
  facts.offload_parameters = facts.offload_optimizer;
}

bool has_converter(const ForeignConfig& config, std::string_view part) {
  const ConfigValue* value = find_value(config.table, "model.converters");
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  return items != nullptr &&
         std::ranges::any_of(*items, [&](const ConfigValue& item) {
           const auto* text = std::get_if<std::string>(&item.data);
           return text != nullptr && text->find(part) != std::string::npos;
         });
}

void set_precision(const ForeignConfig& config, RunFacts& facts) {
  Word all = word_or_default(config, "training.dtype");
  const Word mixed = word_or_default(config, "training.mixed_precision_param");
  if (*all != "bfloat16") {
    all = mixed;
  }
  facts.precision = word_fact(all, *all == "bfloat16" ? "bf16" : "fp32");
  if (has_converter(config, "float8")) {
    facts.precision.value = "fp8";
  }
  const Word reduce =
      word_or_default(config, "training.mixed_precision_reduce");
  facts.reduce_dtype = word_fact(reduce,
                                 *reduce == "bfloat16"  ? "bf16"
                                 : *reduce == "float16" ? "fp16"
                                                        : "fp32");
}

void set_pipeline(const ForeignConfig& config, RunFacts& facts) {
  if (facts.pp.value_or(1) <= 1) {
    return;
  }
  const Word name =
      word_or_default(config, "parallelism.pipeline_parallel_schedule");
  const TorchTitanSchedule* schedule = torchtitan_schedule(*name);
  if (schedule != nullptr) {
    facts.schedule = word_fact(name, std::string(schedule->kind));
    if (!whole_at(config, "parallelism.pipeline_parallel_layers_per_stage")) {
      facts.chunks =
          default_fact<int64_t>(config, name.key, schedule->is_multi ? 2 : 1);
    }
  }
  // Embedding and output count as layers, and stages may differ by one.
  facts.has_custom_stages = default_fact(config, "", true);
}

void set_recompute(const ForeignConfig& config, RunFacts& facts) {
  const Word mode = word_or_default(config, "activation_checkpoint.mode");
  const std::string how = *mode == "memory_budget" ? "selective" : *mode;
  if (how == "none" || how == "selective" || how == "full") {
    facts.recompute = word_fact(mode, how);
  }
}

void set_model(const ForeignConfig& config, RunFacts& facts) {
  const Whole length = whole_or_default(config, "training.seq_len");
  facts.sequence = length;
  const TorchTitanModel* model = torchtitan_model(config);
  if (model == nullptr) {
    return;
  }
  const Word flavor = word_or_default(config, "model.flavor");
  const auto known = [&](int64_t value) {
    return value == 0 ? Whole{}
                      : Whole{value, flavor.key, flavor.position, false};
  };
  facts.layers = known(model->layers);
  facts.hidden = known(model->dim);
  facts.ffn = known(model->ffn);
  facts.heads = known(model->heads);
  facts.kv_heads = known(model->kv_heads);
  facts.head_dim = known(model->head_dim);
  facts.vocabulary = known(model->vocabulary);
  facts.experts = known(model->experts);
  facts.tied = {model->is_tied, flavor.key, flavor.position, false};
  facts.gated = {true, flavor.key, flavor.position, false};
}

void set_training(const ForeignConfig& config, RunFacts& facts) {
  const Word optimizer = word_or_default(config, "optimizer.name");
  facts.optimizer = word_fact(optimizer, lower(*optimizer));
  facts.lr = real_or_default(config, "optimizer.lr");
  facts.weight_decay = real_or_default(config, "optimizer.weight_decay");
  facts.beta1 = real_or_default(config, "optimizer.beta1");
  facts.beta2 = real_or_default(config, "optimizer.beta2");
  facts.adam_eps = real_or_default(config, "optimizer.eps");
  facts.clipping = real_or_default(config, "training.max_norm");
  facts.lr_schedule = word_or_default(config, "lr_scheduler.decay_type");
  const Real factor = real_or_default(config, "lr_scheduler.min_lr_factor");
  facts.min_lr = factor;
  facts.min_lr.value = *factor * *facts.lr;
  facts.warmup_steps = whole_or_default(config, "lr_scheduler.warmup_steps");
  facts.steps = whole_or_default(config, "training.steps");
  facts.seed = whole_at(config, "debug.seed");
  facts.profiles = or_default(flag_at(config, "profiling.enable_profiling"),
                              config,
                              "profiling.enable_profiling",
                              false);
}

}  // namespace

int torchtitan_likeness(std::string_view file_name, std::string_view text) {
  if (!file_name.ends_with(".toml")) {
    return 0;
  }
  // Sections of JobConfig that triax has not, and those that both have.
  constexpr std::array<std::string_view, 11> kOwn = {"[job]",
                                                     "[parallelism]",
                                                     "[lr_scheduler]",
                                                     "[activation_checkpoint]",
                                                     "[metrics]",
                                                     "[profiling]",
                                                     "[compile]",
                                                     "[quantize",
                                                     "[fault_tolerance]",
                                                     "[experimental]",
                                                     "[comm]"};
  const auto own = std::ranges::count_if(
      kOwn, [&](std::string_view line) { return has_line(text, line); });
  const bool is_triax = has_line(text, "[parallel]") || has_line(text, "[run]");
  return is_triax ? 0 : static_cast<int>(std::min<long>(own * 30, 90));
}

ForeignConfig read_torchtitan(std::string_view text, const std::string& file) {
  ForeignConfig config{System::kTorchTitan, file, {}, {}};
  ParsedToml parsed = parse_toml(text, file);
  config.table = std::move(parsed.table);
  if (parsed.problem) {
    config.problems.push_back(std::move(*parsed.problem));
  }
  return config;
}

RunFacts torchtitan_facts(const ForeignConfig& config) {
  RunFacts facts;
  facts.system = System::kTorchTitan;
  facts.file = config.file;
  set_layout(config, facts);
  set_batch(config, facts);
  set_zero(config, facts);
  set_precision(config, facts);
  set_pipeline(config, facts);
  set_recompute(config, facts);
  set_model(config, facts);
  set_training(config, facts);
  return facts;
}

int64_t torchtitan_whole(const ForeignConfig& config, const std::string& key) {
  return whole_or_default(config, key).value_or(0);
}

bool torchtitan_flag(const ForeignConfig& config, const std::string& key) {
  return flag_at(config, key).value_or(default_of(key) == "true");
}

std::string torchtitan_word(const ForeignConfig& config,
                            const std::string& key) {
  return *word_or_default(config, key);
}

}  // namespace triax
