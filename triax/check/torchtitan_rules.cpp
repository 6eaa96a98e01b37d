// SPDX-License-Identifier: Apache-2.0
#include "triax/check/torchtitan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "triax/config/problem.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

// A key that does nothing is no finding while it holds its default.
void drop_ignored_defaults(ForeignFindings& findings) {
  std::erase_if(findings.problems, [&](const Problem& problem) {
    const KeyRow* row = torchtitan_keys().find(problem.field);
    const ConfigValue* value = findings.value(problem.field);
    if (problem.rule != "ignored-key" || row == nullptr || value == nullptr) {
      return false;
    }
    const auto* text = std::get_if<std::string>(&value->data);
    return (text != nullptr ? *text : value_text(*value)) == row->default_value;
  });
}

// "training.batch_size (line 3; now training.local_batch_size)".
std::string old_key_text(const Problem& problem, const KeyRow& row) {
  return fmt::format("{} (line {}; {})",
                     problem.field,
                     problem.position.line,
                     row.replacement.empty()
                         ? std::string(row.why)
                         : fmt::format("now {}", row.replacement));
}

// A file for an older TorchTitan is one mistake, however many of its keys are
// gone: said once, with the list, at the first of them.
void fold_old_keys(ForeignFindings& findings) {
  constexpr size_t kLeast = 3;
  std::vector<Problem>& problems = findings.problems;
  const auto is_old = [](const Problem& problem) {
    return problem.rule == "removed-key" &&
           torchtitan_keys().find(problem.field) != nullptr;
  };
  std::vector<Problem> old;
  std::ranges::copy_if(problems, std::back_inserter(old), is_old);
  if (old.size() < kLeast) {
    return;
  }
  std::erase_if(problems, is_old);
  sort_problems(old);
  std::vector<std::string> texts;
  std::string_view before;  // the first release without one of the keys
  for (const Problem& problem : old) {
    const KeyRow& row = *torchtitan_keys().find(problem.field);
    texts.push_back(old_key_text(problem, row));
    const bool is_older =
        !row.removed.empty() && (before.empty() || row.removed < before);
    before = is_older ? row.removed : before;
  }
  Problem& all = old.front();
  all.message = fmt::format(
      "the file is written for {}, and 0.2.2 stops at {} of its keys: {}",
      before.empty() ? std::string("an older TorchTitan")
                     : fmt::format("a TorchTitan before {}", before),
      texts.size(),
      fmt::join(texts, ", "));
  all.fix = "rename all of them, or start it with the older TorchTitan";
  problems.push_back(std::move(all));
  // Renamed in part it would fit neither: so far all edits are of names.
  for (Problem& problem : problems) {
    problem.edit.reset();
  }
}

// ConfigManager merges the fields of a module of the user's into its own.
void drop_keys_of_custom_module(ForeignFindings& findings) {
  const std::string module =
      torchtitan_word(findings.config, "job.custom_config_module");
  if (module.empty()) {
    return;
  }
  const size_t dropped =
      std::erase_if(findings.problems, [](const Problem& problem) {
        return problem.rule == "unknown-key" || problem.rule == "misplaced-key";
      });
  if (dropped > 0) {
    findings.not_judged(
        fmt::format("{} keys that {} may define", dropped, module));
  }
}

}  // namespace

std::optional<int64_t> torchtitan_shards(const ForeignFindings& findings) {
  const int64_t shards = torchtitan_whole(
      findings.config, "parallelism.data_parallel_shard_degree");
  if (shards >= 1) {
    return shards;
  }
  const RunFacts& facts = findings.facts;
  const int64_t replicas = torchtitan_whole(
      findings.config, "parallelism.data_parallel_replicate_degree");
  double rest = static_cast<double>(std::max<int64_t>(1, replicas));
  for (const Whole* degree : {&facts.tp, &facts.pp, &facts.cp}) {
    rest *= static_cast<double>(std::max<int64_t>(1, degree->value_or(1)));
  }
  if (!findings.context.world || rest > 1e12) {
    return std::nullopt;
  }
  return *findings.context.world / static_cast<int64_t>(rest);
}

bool torchtitan_compiles_model(const ForeignFindings& findings) {
  // The old name is said once: it is no reason for more findings.
  if (!torchtitan_flag(findings.config, "compile.enable") &&
      !torchtitan_flag(findings.config, "training.compile")) {
    return false;
  }
  const ConfigValue* value = findings.value("compile.components");
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  if (items == nullptr) {
    return value == nullptr;
  }
  return std::ranges::any_of(*items, [](const ConfigValue& item) {
    const auto* text = std::get_if<std::string>(&item.data);
    return text != nullptr && *text == "model";
  });
}

void check_torchtitan(ForeignFindings& findings) {
  // ConfigManager._dict_to_dataclass refuses unknown names in every section.
  check_keys(findings, torchtitan_keys(), {.unknown = KeyUse::kRefused});
  drop_ignored_defaults(findings);
  drop_keys_of_custom_module(findings);
  fold_old_keys(findings);
  check_torchtitan_layout(findings);
  check_torchtitan_pipeline(findings);
  check_torchtitan_model(findings);
  check_torchtitan_training(findings);
}

}  // namespace triax
