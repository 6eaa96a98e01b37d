// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "triax/config/fields.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/system.h"
#include "triax/foreign/triax_facts.h"

namespace triax {
namespace {

// No product of three of them overflows.
constexpr int64_t kMaxCount = int64_t{1} << 20;

// A number that no config can hold is left to its key.
bool is_finite(double value) {
  return std::isfinite(value);
}
template <class T>
bool is_finite(const T&) {
  return true;
}

template <class T>
void add(std::vector<NamedFact>& named, const char* name, const Fact<T>& fact) {
  if (fact && is_finite(*fact)) {
    named.push_back({name, Json(*fact), {}, fact.is_default});
    if (!fact.key.empty()) {
      named.back().keys.push_back(fact.key);
    }
  }
}

// A degree that no system takes is none.
void add_degree(std::vector<NamedFact>& named,
                const char* name,
                const Whole& degree) {
  if (degree.value_or(0) >= 1) {
    add(named, name, degree);
  }
}

void add_layout(std::vector<NamedFact>& named, const RunFacts& facts) {
  add_degree(named, "tp", facts.tp);
  add_degree(named, "pp", facts.pp);
  add_degree(named, "cp", facts.cp);
  add_degree(named, "ep", facts.ep);
  add_degree(named, "expert_tp", facts.expert_tp);
  add_degree(named, "dp", facts.dp);
  add(named, "sequence_parallel", facts.sequence_parallel);
  add(named, "zero_stage", facts.zero_stage);
  add(named, "offload_optimizer", facts.offload_optimizer);
  add(named, "offload_parameters", facts.offload_parameters);
  add(named, "bucket_elements", facts.bucket_elements);
  add(named, "overlap_reduce", facts.overlap_reduce);
  add(named, "overlap_gather", facts.overlap_gather);
  add(named, "schedule", facts.schedule);
  add(named, "chunks", facts.chunks);
  add(named, "first_stage_layers", facts.first_stage_layers);
  add(named, "last_stage_layers", facts.last_stage_layers);
  add(named, "recompute", facts.recompute);
}

void add_model(std::vector<NamedFact>& named, const RunFacts& facts) {
  add(named, "layers", facts.layers);
  add(named, "hidden", facts.hidden);
  add(named, "ffn", facts.ffn);
  add(named, "heads", facts.heads);
  add(named, "kv_heads", facts.kv_heads);
  add(named, "head_dim", facts.head_dim);
  add(named, "vocabulary", facts.vocabulary);
  add(named, "experts", facts.experts);
  add(named, "max_positions", facts.max_positions);
  add(named, "tied", facts.tied);
  add(named, "gated", facts.gated);
  add(named, "learned_positions", facts.learned_positions);
  add(named, "norm", facts.norm);
}

void add_training(std::vector<NamedFact>& named, const RunFacts& facts) {
  add(named, "microbatch", facts.microbatch);
  add(named, "accumulation", facts.accumulation);
  add(named, "global_batch", facts.global_batch);
  add(named, "sequence", facts.sequence);
  add(named, "precision", facts.precision);
  add(named, "loss_scale", facts.loss_scale);
  add(named, "reduce_dtype", facts.reduce_dtype);
  add(named, "optimizer", facts.optimizer);
  add(named, "lr", facts.lr);
  add(named, "min_lr", facts.min_lr);
  add(named, "weight_decay", facts.weight_decay);
  add(named, "clipping", facts.clipping);
  add(named, "beta1", facts.beta1);
  add(named, "beta2", facts.beta2);
  add(named, "adam_eps", facts.adam_eps);
  add(named, "lr_schedule", facts.lr_schedule);
  add(named, "warmup_steps", facts.warmup_steps);
  add(named, "steps", facts.steps);
  add(named, "seed", facts.seed);
}

bool is_count(int64_t value) {
  return value >= 1 && value <= kMaxCount;
}

// What follows from the rest by arithmetic, where a config leaves it out.
void complete_layout(RunFacts& facts, const TranslationContext& context) {
  const int64_t inner =
      facts.tp.value_or(1) * facts.pp.value_or(1) * facts.cp.value_or(1);
  const int64_t world = context.world.value_or(facts.world.value_or(0));
  if (!facts.dp && world > 0 && is_count(inner) && world % inner == 0) {
    facts.dp = {world / inner, "", {}, false};
  }
  const int64_t layers = facts.layers.value_or(0);
  const int64_t of_chunk = facts.layers_per_chunk.value_or(0);
  const int64_t pp = facts.pp.value_or(1);
  if (!facts.chunks && is_count(layers) && is_count(of_chunk) && is_count(pp) &&
      layers % (of_chunk * pp) == 0) {
    facts.chunks = facts.layers_per_chunk;
    facts.chunks.value = layers / (of_chunk * pp);
  }
}

void complete_batch(RunFacts& facts) {
  const int64_t micro = facts.microbatch.value_or(0);
  const int64_t dp = facts.dp.value_or(0);
  // A system that was told one number of the triangle accumulates nothing.
  const bool is_alone = (facts.system == System::kDeepSpeed ||
                         facts.system == System::kTorchTitan) &&
                        !facts.accumulation &&
                        (!facts.global_batch || !facts.microbatch);
  if (is_alone && (facts.global_batch || facts.microbatch)) {
    facts.accumulation = {1, "", {}, false};
  }
  const int64_t steps = facts.accumulation.value_or(0);
  const int64_t global = facts.global_batch.value_or(0);
  if (!is_count(dp)) {
    return;
  }
  if (global < 1 && is_count(micro) && is_count(steps)) {
    facts.global_batch = {micro * dp * steps, "", {}, false};
  } else if (steps < 1 && global > 0 && is_count(micro) &&
             global % (micro * dp) == 0) {
    facts.accumulation = {global / (micro * dp), "", {}, false};
  } else if (micro < 1 && global > 0 && is_count(steps) &&
             global % (steps * dp) == 0) {
    facts.microbatch = {global / (steps * dp), "", {}, false};
  }
}

void complete_steps(RunFacts& facts) {
  const int64_t samples = facts.samples.value_or(0);
  const int64_t global = facts.global_batch.value_or(0);
  if (!facts.steps && samples > 0 && global > 0) {
    facts.steps = facts.samples;
    facts.steps.value = samples / global + (samples % global > 0);
  }
}

// arguments.py, validate_args(): what --ffn-hidden-size is when it is not said.
void complete_ffn(RunFacts& facts) {
  const int64_t hidden = facts.hidden.value_or(0);
  if (facts.system != System::kMegatron || facts.ffn || !facts.gated ||
      !is_count(hidden)) {
    return;
  }
  constexpr int64_t kRound = 64;
  facts.ffn = {*facts.gated ? hidden * 8 / 3 / kRound * kRound : 4 * hidden,
               "ffn-hidden-size",
               {},
               true};
}

template <class T>
void fill(Fact<T>& fact, T value, bool is_known) {
  if (is_known && !fact.is_set()) {
    fact = {std::move(value), "", {}, false};
  }
}

void complete_model(RunFacts& facts, const ModelConfig& model) {
  const auto whole = [](Whole& fact, int64_t value) {
    fill(fact, value, value > 0);
  };
  const bool is_gpt2 = model.family == ModelFamily::kGpt2;
  whole(facts.layers, model.num_hidden_layers);
  whole(facts.hidden, model.hidden_size);
  whole(facts.ffn, model.intermediate_size);
  whole(facts.heads, model.num_attention_heads);
  whole(facts.kv_heads, model.num_key_value_heads);
  whole(facts.head_dim, model.head_dim);
  whole(facts.vocabulary, model.vocab_size);
  whole(facts.max_positions, model.max_position_embeddings);
  fill(facts.tied, model.tie_word_embeddings, true);
  fill(facts.gated, !is_gpt2, true);
  fill(facts.learned_positions, is_gpt2, true);
  fill(facts.norm, std::string(is_gpt2 ? "layernorm" : "rmsnorm"), true);
}

// The keys of a config.

bool is_off(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return !*flag;
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return text->empty() || *text == "none" || *text == "None";
  }
  if (const auto* items = std::get_if<ConfigArray>(&value.data)) {
    return items->empty();
  }
  if (const auto* table = std::get_if<ConfigTable>(&value.data)) {
    return table->empty();
  }
  const auto* foreign = std::get_if<ForeignValue>(&value.data);
  return foreign != nullptr && foreign->kind == "null";
}

bool is_off(std::string_view default_value) {
  return default_value.empty() || default_value == "false" ||
         default_value == "none" || default_value == "null" ||
         default_value == "[]" || default_value == "{}";
}

bool is_number(std::string_view text, double& number) {
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

bool equals_default(const ConfigValue& value, std::string_view text) {
  double number = 0;
  if (is_number(text, number)) {
    const auto* whole = std::get_if<int64_t>(&value.data);
    const auto* real = std::get_if<double>(&value.data);
    return whole != nullptr  ? static_cast<double>(*whole) == number
           : real != nullptr ? *real == number
                             : false;
  }
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return text == (*flag ? "true" : "false");
  }
  const auto* word = std::get_if<std::string>(&value.data);
  return word != nullptr && !text.empty() && *word == text;
}

std::string text_of(const ConfigValue& value) {
  const auto* items = std::get_if<ConfigArray>(&value.data);
  if (items == nullptr || items->size() > 8) {
    return value_text(value);
  }
  std::string text;
  for (const ConfigValue& item : *items) {
    text += (text.empty() ? "" : ", ") + value_text(item);
  }
  return fmt::format("[{}]", text);
}

class KeyWalk {
 public:
  KeyWalk(System system, const KeyTable& keys) : system_(system), keys_(keys) {}

  void walk(const ConfigTable& table, const std::string& prefix) {
    for (const ConfigEntry& entry : table) {
      const bool is_around = system_ == System::kMegatron && prefix.empty() &&
                             entry.key == "launch";
      if (!is_around) {
        look_at(entry.value,
                prefix.empty() ? entry.key : prefix + "." + entry.key);
      }
    }
  }

  std::vector<SourceKey> take() { return std::move(found_); }

 private:
  void look_at(const ConfigValue& value, const std::string& path) {
    if (const auto* table = std::get_if<ConfigTable>(&value.data)) {
      if (!table->empty()) {
        walk(*table, path);
        return;
      }
    }
    const auto* items = std::get_if<ConfigArray>(&value.data);
    const bool holds_tables =
        items != nullptr &&
        std::ranges::any_of(*items, [](const ConfigValue& item) {
          return std::holds_alternative<ConfigTable>(item.data);
        });
    for (size_t i = 0; holds_tables && i < items->size(); ++i) {
      look_at((*items)[i], fmt::format("{}.{}", path, i));
    }
    if (!holds_tables) {
      found_.push_back(key_of(value, path));
    }
  }

  SourceKey key_of(const ConfigValue& value, const std::string& path) const {
    const KeyRow* row = keys_.find(path);
    const std::string_view usual = row == nullptr ? "" : row->default_value;
    const auto* text = std::get_if<std::string>(&value.data);
    const auto* foreign = std::get_if<ForeignValue>(&value.data);
    return {path,
            text_of(value),
            is_off(value) && is_off(usual),
            row != nullptr && equals_default(value, usual),
            (text != nullptr && *text == "auto" && usual != "auto") ||
                (foreign != nullptr && foreign->kind != "null")};
  }

  System system_;
  const KeyTable& keys_;
  std::vector<SourceKey> found_;
};

const KeyTable& keys_of(const ForeignConfig& config) {
  return config.system == System::kNanotron && is_old_nanotron(config)
             ? nanotron_old_keys()
             : find_system(config.system)->keys();
}

std::vector<NamedFact> name_all(const RunFacts& facts) {
  std::vector<NamedFact> named;
  add_layout(named, facts);
  add_model(named, facts);
  add_training(named, facts);
  return named;
}

// What a system says in its own words goes before what all share.
std::vector<NamedFact> joined(std::vector<NamedFact> own,
                              std::vector<NamedFact> shared) {
  for (NamedFact& fact : shared) {
    if (std::ranges::find(own, fact.name, &NamedFact::name) == own.end()) {
      own.push_back(std::move(fact));
    }
  }
  return own;
}

}  // namespace

const NamedFact* TranslationSource::find(std::string_view name) const {
  const auto found = std::ranges::find(facts, name, &NamedFact::name);
  return found == facts.end() ? nullptr : &*found;
}

TranslationSource translation_source(const ForeignConfig& config,
                                     const TranslationContext& context) {
  RunFacts facts = find_system(config.system)->facts(config);
  complete_layout(facts, context);
  complete_batch(facts);
  complete_steps(facts);
  complete_ffn(facts);
  if (context.model) {
    complete_model(facts, *context.model);
  }
  TranslationSource source{
      config.system, joined(more_facts(config, facts), name_all(facts)), {}};
  // The other systems' configs say themselves what the model is.
  if (config.system == System::kDeepSpeed ||
      config.system == System::kTorchTitan) {
    source.facts = joined(std::move(source.facts), context.model_details);
  }
  for (const auto& [key, name] : companions(config, facts)) {
    const auto found = std::ranges::find(source.facts, name, &NamedFact::name);
    if (found != source.facts.end()) {
      found->keys.push_back(key);
    }
  }
  KeyWalk walk(config.system, keys_of(config));
  walk.walk(config.table, "");
  source.keys = walk.take();
  return source;
}

TranslationSource translation_source(const LoadedConfig& loaded) {
  RunFacts facts = triax_facts(loaded);
  if (loaded.config.training.precision == Precision::kFp64) {
    facts.precision.key.clear();  // no other system has it: its key is named
  }
  complete_batch(facts);
  TranslationSource source{
      System::kTriax, joined(more_facts(loaded), name_all(facts)), {}};
  const RunConfig usual;
  for (const auto& [key, position] : loaded.positions) {
    const Field* field = find_field(key);
    const bool is_read = field != nullptr && field->is_read();
    const std::string text =
        is_read ? print_value(*field, loaded.config) : std::string();
    const std::string default_text =
        is_read ? print_value(*field, usual) : std::string();
    // What is on by default does something when it is turned off.
    const bool is_neutral = default_text != "true" &&
                            (is_off(text.empty() ? std::string_view("?")
                                                 : std::string_view(text)) ||
                             text == "\"none\"");
    source.keys.push_back(
        {key, text, is_neutral, is_read && text == default_text});
  }
  return source;
}

}  // namespace triax
