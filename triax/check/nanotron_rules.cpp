// SPDX-License-Identifier: Apache-2.0
#include "triax/check/nanotron_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "triax/check/foreign_rules.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/parse_yaml.h"

namespace triax {
namespace {

// dacite's is_instance: a bool is an int, and an int is a float.
std::string misfit(const KeyRow& row, const ConfigValue& value) {
  const bool is_number =
      row.type == KeyType::kWhole || row.type == KeyType::kNumber;
  return is_number && std::holds_alternative<bool>(value.data)
             ? ""
             : misfit_text(row, value);
}

// "1e-4": a number to Python, a text to YAML 1.1.
std::string as_yaml_number(const std::string& text) {
  const size_t e = text.find_first_of("eE");
  if (e == std::string::npos || e == 0 || e + 1 == text.size()) {
    return "";
  }
  std::string mantissa = text.substr(0, e);
  std::string exponent = text.substr(e + 1);
  if (mantissa.find('.') == std::string::npos) {
    mantissa += ".0";
  }
  if (exponent[0] != '-' && exponent[0] != '+') {
    exponent.insert(0, "+");
  }
  const std::string written = mantissa + "e" + exponent;
  return std::holds_alternative<double>(resolve_yaml_scalar(written, {}).data)
             ? written
             : "";
}

void explain_numbers(ForeignFindings& findings) {
  for (Problem& problem : findings.problems) {
    const ConfigValue* value = findings.value(problem.field);
    const auto* text = problem.rule == "wrong-type" && value != nullptr
                           ? std::get_if<std::string>(&value->data)
                           : nullptr;
    const std::string written = text == nullptr ? "" : as_yaml_number(*text);
    if (!written.empty()) {
      problem.message = fmt::format(
          "{} is a text: in YAML 1.1 a number with an exponent has a point "
          "and a sign",
          *text);
      problem.fix = "write " + written;
      problem.edit = SafeEdit{value->position, *text, written};
    }
  }
}

// ModelArgs takes a model_config of any class; what no class of nanotron's has
// is refused or missed only where the class is one of them.
constexpr std::string_view kLlama =
    "bos_token_id|eos_token_id|hidden_act|hidden_size|initializer_range|"
    "intermediate_size|is_llama_config|max_position_embeddings|"
    "num_attention_heads|num_hidden_layers|attention_bias|"
    "num_key_value_heads|pad_token_id|pretraining_tp|rms_norm_eps|"
    "rope_scaling|rope_theta|rope_interleaved|tie_word_embeddings|use_cache|"
    "vocab_size|_attn_implementation|z_loss_enabled|z_loss_coefficient";
constexpr std::string_view kQwenToo =
    "is_qwen2_config|interleaved_rotary|flex_attention_mask|sliding_window_"
    "size|no_rope_layer|"
    "_fused_rotary_emb|_fused_rms_norm|_use_qkv_packed|_use_doc_masking|"
    "log_attn_probs|ring_attn_heads_k_stride|moe_config|"
    "rope_seq_len_interpolation_factor";
constexpr std::string_view kStarcoder =
    "activation_function|attention_softmax_in_fp32|attn_pdrop|bos_token_id|"
    "embd_pdrop|eos_token_id|global_attn_layers|grouped_query|hidden_size|"
    "initializer_range|intermediate_size|is_starcoder2_config|"
    "layer_norm_epsilon|max_position_embeddings|multi_query|"
    "num_attention_heads|num_hidden_layers|num_kv_heads|resid_pdrop|"
    "rope_theta|scale_attention_softmax_in_fp32|scale_attn_weights|"
    "sliding_window_size|use_position_embeddings|use_rotary_embeddings|"
    "vocab_size|_attn_implementation";

bool is_of(std::string_view words, std::string_view word) {
  const auto list = split_words(words);
  return std::ranges::find(list, word) != list.end();
}

bool class_has(const std::string& name, const std::string& key) {
  if (name == "starcoder2") {
    return is_of(kStarcoder, key);
  }
  const bool is_qwen = name == "qwen2";
  return (is_of(kLlama, key) && !(is_qwen && key == "is_llama_config")) ||
         (is_qwen && is_of(kQwenToo, key));
}

void check_model_class(ForeignFindings& findings) {
  const ConfigValue* value = findings.value("model.model_config");
  const auto* table =
      value == nullptr ? nullptr : std::get_if<ConfigTable>(&value->data);
  const std::string name = nanotron_model_class(findings.config);
  if (table == nullptr) {
    return;
  }
  if (name != "llama" && name != "qwen2" && name != "starcoder2") {
    findings.not_judged(
        fmt::format("model.model_config: {} is a class of its own", name));
    std::erase_if(findings.problems, [](const Problem& problem) {
      return (problem.rule == "unknown-key" ||
              problem.rule == "misplaced-key") &&
             problem.field.starts_with("model.");
    });
    return;
  }
  for (const ConfigEntry& entry : *table) {
    if (class_has(name, entry.key)) {
      continue;
    }
    findings.add({Severity::kError,
                  "unknown-key",
                  "model.model_config." + entry.key,
                  entry.key_position,
                  fmt::format("the {} config has no such key, so it is not "
                              "taken for one",
                              name),
                  "remove it, or set the is_…_config of the class that is "
                  "meant",
                  Effect::kFailsLater});
  }
}

// Fields without a default. A section that is absent, or null, asks nothing.
struct Required {
  std::string_view section;
  std::string_view keys;
};

constexpr Required kRequired[] = {
    {"", "general|parallelism|model"},
    {"general", "project"},
    {"parallelism", "dp|pp|tp"},
    {"model", "model_config|init_method"},
    {"checkpoints", "checkpoints_path|checkpoint_interval"},
    {"tokens",
     "sequence_length|train_steps|micro_batch_size|"
     "batch_accumulation_per_replica"},
    {"optimizer",
     "zero_stage|weight_decay|accumulate_grad_in_fp32|"
     "learning_rate_scheduler"},
    {"optimizer.learning_rate_scheduler", "learning_rate|lr_warmup_style"},
};
constexpr Required kRequiredNew[] = {
    {"optimizer", "optimizer_factory"},
    {"s3_upload", "upload_s3_path|remove_after_upload"},
};
constexpr Required kRequiredOld[] = {
    {"", "tokenizer"},
    {"optimizer", "adam_eps|adam_beta1|adam_beta2|torch_adam_is_fused"},
};

void check_required(ForeignFindings& findings, const Required& required) {
  const std::string section(required.section);
  const ConfigValue* value = findings.value(section);
  const bool is_top = section.empty();
  if (!is_top &&
      (value == nullptr || !std::holds_alternative<ConfigTable>(value->data))) {
    return;
  }
  for (const std::string_view key : split_words(required.keys)) {
    const std::string path = (is_top ? "" : section + ".") + std::string(key);
    if (!findings.is_set(path)) {
      findings.add(
          {Severity::kError,
           "missing-key",
           path,
           is_top ? Position{findings.config.file, 0, 0}
                  : find_entry(findings.config.table, section)->key_position,
           "it has no default",
           "add it",
           Effect::kRefused});
    }
  }
}

bool is_adam_whole(const ForeignFindings& findings) {
  const std::string section = "optimizer.optimizer_factory.";
  return std::ranges::all_of(
      split_words("adam_eps|adam_beta1|adam_beta2|torch_adam_is_fused"),
      [&](std::string_view key) {
        return findings.is_set(section + std::string(key));
      });
}

// The union of SGD, which has a name alone, and AdamW, which needs all.
void check_factory(ForeignFindings& findings) {
  const std::string section = "optimizer.optimizer_factory";
  const ConfigValue* value = findings.value(section);
  const auto* table =
      value == nullptr ? nullptr : std::get_if<ConfigTable>(&value->data);
  if (table == nullptr) {
    return;
  }
  const bool has_adam = std::ranges::any_of(
      *table, [](const ConfigEntry& entry) { return entry.key != "name"; });
  if (has_adam && !is_adam_whole(findings)) {
    findings.error("missing-key",
                   section,
                   "AdamW needs all of adam_eps, adam_beta1, adam_beta2 and "
                   "torch_adam_is_fused",
                   "add the missing ones");
    return;
  }
  const std::string name = word_at(findings.config, section + ".name")
                               .value_or(has_adam ? "adamW" : "sgd");
  if (name != (has_adam ? "adamW" : "sgd")) {
    findings.error("optimizer-choice",
                   section + ".name",
                   fmt::format("{} with {} is none that is built",
                               in_quotes(name),
                               has_adam ? "Adam's numbers" : "a name alone"),
                   fmt::format("use \"{}\"", has_adam ? "adamW" : "sgd"),
                   Effect::kFailsLater);
  }
}

void check_sections(ForeignFindings& findings, bool is_old) {
  for (const Required& required : kRequired) {
    check_required(findings, required);
  }
  for (const Required& required : kRequiredNew) {
    if (!is_old) {
      check_required(findings, required);
    }
  }
  for (const Required& required : kRequiredOld) {
    if (is_old) {
      check_required(findings, required);
    }
  }
  // The trainer reads them without asking.
  for (const char* section :
       {"tokens", "optimizer", "checkpoints", "logging"}) {
    const ConfigValue* value = findings.value(section);
    if (value == nullptr || std::holds_alternative<ForeignValue>(value->data)) {
      findings.add({Severity::kError,
                    "missing-key",
                    section,
                    {findings.config.file, 0, 0},
                    "the config loads without it, and the trainer does not "
                    "start",
                    "add the section",
                    Effect::kFailsLater});
    }
  }
}

}  // namespace

Effect nanotron_assert_effect(const ForeignFindings& findings) {
  return is_old_nanotron(findings.config) ? Effect::kFailsLater
                                          : Effect::kRefused;
}

void check_nanotron_keys(ForeignFindings& findings) {
  const bool is_old = is_old_nanotron(findings.config);
  check_keys(findings,
             is_old ? nanotron_old_keys() : nanotron_keys(),
             {.unknown = KeyUse::kRefused, .misfit = misfit});
  explain_numbers(findings);
  check_model_class(findings);
  check_sections(findings, is_old);
  check_factory(findings);
  if (is_old) {
    findings.note("removed-key",
                  findings.is_set("data") ? "data" : "optimizer.adam_eps",
                  "this is the layout of the package 0.4; the repository "
                  "refuses it",
                  "for the repository: data_stages, and an optimizer_factory");
  }
}

void check_nanotron(ForeignFindings& findings) {
  check_nanotron_keys(findings);
  check_nanotron_model(findings);
  check_nanotron_training(findings);
}

}  // namespace triax
