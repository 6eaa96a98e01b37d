// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_runs.h"

#include <algorithm>

#include "triax/foreign/megatron_shell_expansion.h"

namespace triax {
namespace {

constexpr size_t kMaxRuns = 1000;

bool ends_command(const std::string& word) {
  return word.find_first_of("|<>;") != std::string::npos &&
         word.find_first_of("|<>;") <= 1;
}

// bash -c "a b --c" and eval "a b": the string is the command.
std::vector<ShellField> with_strings_split(
    const std::vector<ShellField>& fields) {
  const bool is_eval = fields[0].text() == "eval";
  std::vector<ShellField> result;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string text = fields[i].text();
    const bool is_command_line =
        (is_eval || (i > 0 && i + 1 == fields.size())) &&
        text.find(" --") != std::string::npos;
    if (!is_command_line) {
      result.push_back(fields[i]);
      continue;
    }
    for (ShellField& word : split_fields(fields[i])) {
      if (ends_command(word.text())) {
        break;
      }
      result.push_back(std::move(word));
    }
  }
  return result;
}

}  // namespace

void record_run(const ShellNode& node,
                const std::vector<ShellField>& fields,
                ShellState& state,
                std::vector<ShellRun>& runs) {
  static const std::string_view kShown[] = {
      "echo", "printf", "cat", "sed", "mkdir"};
  const std::string name = fields[0].text();
  if (std::find(std::begin(kShown), std::end(kShown), name) !=
      std::end(kShown)) {
    return;
  }
  ShellRun run;
  run.fields = with_strings_split(fields);
  if (name == "eval") {
    run.fields.erase(std::find_if(run.fields.begin(),
                                  run.fields.end(),
                                  [](const ShellField& field) {
                                    return field.is_known() &&
                                           ends_command(field.text());
                                  }),
                     run.fields.end());
  }
  const bool has_dashes = std::any_of(
      run.fields.begin(), run.fields.end(), [](const ShellField& field) {
        return field.text().starts_with("--");
      });
  if (!has_dashes || runs.size() >= kMaxRuns) {
    return;
  }
  for (const auto& [exported, is_set] : state.exported) {
    const ShellValue* value = state.find(exported);
    if (value != nullptr && !value->items.empty()) {
      run.environment[exported] = value->items[0];
    }
  }
  for (const ShellAssignment& assignment : node.assignments) {
    if (!assignment.words.empty()) {
      run.environment[assignment.name] =
          ShellExpansion(state).expand_whole(assignment.words[0]);
    }
  }
  for (const ShellField& field : run.fields) {
    state.spend(field.text().size(), node.offset);
  }
  runs.push_back(std::move(run));
}

}  // namespace triax
