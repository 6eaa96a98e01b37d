// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "triax/check/torchtitan_rules.h"
#include "triax/config/nearest.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

using Words = std::vector<std::string>;

Words words_at(const ForeignFindings& findings, const std::string& path) {
  Words words;
  const ConfigValue* value = findings.value(path);
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  for (const ConfigValue& item : items == nullptr ? ConfigArray{} : *items) {
    if (const auto* text = std::get_if<std::string>(&item.data)) {
      words.push_back(*text);
    }
  }
  return words;
}

bool has(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string near_fix(std::string_view word,
                     const std::vector<std::string_view>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? fmt::format("use one of {}", fmt::join(known, ", "))
                      : fmt::format("did you mean {}?", near);
}

bool brings_its_own(const ForeignFindings& findings) {
  return !torchtitan_word(findings.config, "experimental.custom_import")
              .empty() ||
         !torchtitan_word(findings.config, "job.custom_config_module").empty();
}

// get_train_spec, and the table of flavors of each model.
void check_name(ForeignFindings& findings) {
  static const std::vector<std::string_view> known = {
      "llama3",
      "llama4",
      "deepseek_v3",
      "qwen3",
      "gpt_oss",
      "flux",
      "llama3_ft",
      "simple_fsdp.llama3",
      "simple_fsdp.deepseek_v3",
      "vlm",
      "compiler_toolkit.llama3",
      "compiler_toolkit.deepseek_v3",
      "transformers_modeling_backend",
      "autoparallel.llama3",
      "autoparallel.deepseek_v3",
      "autoparallel.local_map_deepseek_v3"};
  const std::string name = torchtitan_word(findings.config, "model.name");
  if (std::ranges::find(known, name) == known.end()) {
    if (!brings_its_own(findings)) {
      findings.error("unknown-value",
                     "model.name",
                     fmt::format("0.2.2 ships no model {}", in_quotes(name)),
                     near_fix(name, known),
                     Effect::kFailsLater);
    }
    return;
  }
  std::vector<std::string_view> flavors;
  for (const TorchTitanModel& model : torchtitan_models()) {
    if (model.name == name) {
      flavors.push_back(model.flavor);
    }
  }
  const std::string flavor = torchtitan_word(findings.config, "model.flavor");
  if (!flavors.empty() && !brings_its_own(findings) &&
      std::ranges::find(flavors, flavor) == flavors.end()) {
    findings.error("unknown-value",
                   "model.flavor",
                   fmt::format("{} has no flavor {}", name, in_quotes(flavor)),
                   near_fix(flavor, flavors),
                   Effect::kFailsLater);
  }
}

// update_from_config and the parallelize functions: which attention takes
// context parallelism.
void check_context_parallel(ForeignFindings& findings) {
  const TorchTitanModel* model = torchtitan_model(findings.config);
  if (model == nullptr || findings.facts.cp.value_or(1) <= 1) {
    return;
  }
  const bool is_taken = model->attention == "sdpa" ||
                        (model->name == "llama3" && model->attention == "flex");
  if (is_taken && model->name != "gpt_oss") {
    return;
  }
  findings.error(
      "refused-combination",
      "parallelism.context_parallel_degree",
      fmt::format("{} {} has {} attention, which takes no context parallelism",
                  model->name,
                  model->flavor,
                  model->attention),
      "use 1, or a flavor with sdpa attention",
      Effect::kFailsLater);
}

constexpr std::array<std::string_view, 4> kConverters = {
    "quantize.linear.float8",
    "quantize.grouped_mm.float8",
    "quantize.linear.mx",
    "quantize.grouped_mm.mx"};

// model_converter.py's registry, and QuantizationConverter._validate.
void check_converters(ForeignFindings& findings, const Words& converters) {
  const std::string key = "model.converters";
  bool has_float8 = false;
  bool has_mx = false;
  for (const std::string& converter : converters) {
    has_float8 = has_float8 || converter.ends_with(".float8");
    has_mx = has_mx || converter.ends_with(".mx");
    if (std::ranges::find(kConverters, converter) != kConverters.end() ||
        brings_its_own(findings)) {
      continue;
    }
    const bool is_old = converter == "float8" || converter == "mx";
    findings.error(
        "unknown-value",
        key,
        fmt::format("no converter is named {}", in_quotes(converter)),
        is_old ? fmt::format("use \"quantize.linear.{}\"", converter)
               : near_fix(converter, {kConverters.begin(), kConverters.end()}),
        Effect::kFailsLater);
  }
  if (has_float8 && has_mx) {
    findings.error("refused-combination",
                   key,
                   "float8 and mx are not taken together",
                   "use one of them",
                   Effect::kFailsLater);
  }
}

void check_float8(ForeignFindings& findings, const Words& converters) {
  const std::string section = "quantize.linear.float8.";
  const bool gathers = torchtitan_flag(
      findings.config, section + "enable_fsdp_float8_all_gather");
  const std::string recipe =
      word_at(findings.config, section + "recipe_name").value_or("");
  if (!has(converters, "quantize.linear.float8")) {
    if (gathers || !recipe.empty()) {
      findings.note(
          "no-effect",
          section + (gathers ? "enable_fsdp_float8_all_gather" : "recipe_name"),
          "float8 is off: model.converters does not name it",
          "add \"quantize.linear.float8\" to model.converters",
          Effect::kIgnored);
    }
    return;
  }
  if (gathers && !recipe.empty()) {
    findings.error("refused-combination",
                   section + "enable_fsdp_float8_all_gather",
                   fmt::format("the recipe {} takes no float8 all-gather",
                               in_quotes(recipe)),
                   "remove one of them",
                   Effect::kFailsLater);
  }
  const auto shards = torchtitan_shards(findings);
  if (gathers && recipe.empty() && shards && *shards == 1) {
    findings.warning("no-effect",
                     section + "enable_fsdp_float8_all_gather",
                     "nothing is sharded, so nothing is gathered",
                     "remove it",
                     Effect::kIgnored);
  }
  if (!torchtitan_compiles_model(findings) &&
      !torchtitan_flag(findings.config, section + "emulate")) {
    findings.note("no-effect",
                  "compile.enable",
                  "float8 is slower than bfloat16 without torch.compile",
                  "set compile.enable = true",
                  Effect::kSlow);
  }
}

// Float8GroupedMMConverter and MXLinearConverter.
void check_prototypes(ForeignFindings& findings, const Words& converters) {
  const RunFacts& facts = findings.facts;
  if (has(converters, "quantize.grouped_mm.float8") &&
      (facts.pp.value_or(1) > 1 || facts.cp.value_or(1) > 1)) {
    findings.error("refused-combination",
                   "model.converters",
                   fmt::format("quantize.grouped_mm.float8 takes no pp {} or "
                               "cp {}",
                               facts.pp.value_or(1),
                               facts.cp.value_or(1)),
                   "use 1 for both, or remove it",
                   Effect::kFailsLater);
  }
  if (has(converters, "quantize.linear.mx") && facts.tp.value_or(1) > 1 &&
      torchtitan_compiles_model(findings)) {
    findings.error("refused-combination",
                   "model.converters",
                   fmt::format("quantize.linear.mx takes no tp {} together "
                               "with torch.compile",
                               *facts.tp),
                   "use tensor_parallel_degree = 1, or leave compile off",
                   Effect::kFailsLater);
  }
}

// activation_checkpoint.py.
void check_recompute(ForeignFindings& findings) {
  const std::string section = "activation_checkpoint.";
  const std::string mode = torchtitan_word(findings.config, section + "mode");
  const std::string option =
      torchtitan_word(findings.config, section + "selective_ac_option");
  const bool is_count =
      !option.empty() &&
      option.find_first_not_of("0123456789") == std::string::npos;
  if (mode == "selective" && option != "op" && !is_count) {
    findings.error("unknown-value",
                   section + "selective_ac_option",
                   fmt::format("{} is neither \"op\" nor a count of layers",
                               in_quotes(option)),
                   "use \"op\" or \"2\"",
                   Effect::kFailsLater);
  }
  if (mode == "memory_budget" && !torchtitan_compiles_model(findings)) {
    findings.error("refused-combination",
                   section + "mode",
                   "a memory budget needs compile.enable and \"model\" among "
                   "compile.components",
                   "set compile.enable = true",
                   Effect::kFailsLater);
  }
}

}  // namespace

void check_torchtitan_model(ForeignFindings& findings) {
  const Words converters = words_at(findings, "model.converters");
  check_name(findings);
  check_context_parallel(findings);
  check_converters(findings, converters);
  check_float8(findings, converters);
  check_prototypes(findings, converters);
  check_recompute(findings);
}

}  // namespace triax
