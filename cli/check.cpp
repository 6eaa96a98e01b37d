// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/check_fix.h"
#include "cli/check_inputs.h"
#include "cli/check_translate.h"
#include "cli/checked_config.h"
#include "cli/verbs.h"
#include "triax/base/units.h"
#include "triax/check/check.h"
#include "triax/check/foreign_check.h"
#include "triax/check/report_formats.h"
#include "triax/foreign/triax_facts.h"

namespace triax {
namespace {

void print_text(const std::vector<Problem>& problems) {
  int counts[3] = {};
  for (const Problem& problem : problems) {
    ++counts[static_cast<int>(problem.severity)];
    fmt::print("{}\n", to_text(problem));
  }
  fmt::print("{}, {}, {}\n",
             counted(counts[0], "error"),
             counted(counts[1], "warning"),
             counted(counts[2], "note"));
}

// Errors and warnings are findings, notes are not.
int code_of_findings(const std::vector<Problem>& problems) {
  int code = exit_code_of(problems);
  for (const Problem& problem : problems) {
    if (problem.severity == Severity::kWarning && code == 0) {
      code = 1;
    }
  }
  return code;
}

void append(std::vector<Problem>& all,
            const ForeignReport& report,
            const std::string& file) {
  all.insert(all.end(), report.problems.begin(), report.problems.end());
  for (const std::string& clause : report.unjudged) {
    all.push_back({Severity::kNote, "not-judged", "", {file, 0, 0}, clause});
  }
}

// Only TorchTitan's reader stops at a byte order mark.
std::vector<Problem> mark_problems(const CheckInput& input) {
  if (!input.has_mark || input.system != System::kTorchTitan) {
    return {};
  }
  return {{Severity::kError,
           "byte-order-mark",
           "",
           {input.file, 1, 1},
           "the file begins with a byte order mark, at which Python's "
           "tomllib stops",
           "save it as UTF-8 without one",
           Effect::kRefused}};
}

std::vector<Problem> check_input(const CheckInput& input,
                                 const ForeignContext& context) {
  if (input.problem) {
    return {*input.problem};
  }
  if (input.loaded) {
    std::vector<Problem> problems = check_run(*input.loaded, this_machine());
    const std::optional<Problem> shown =
        context.reference && exit_code_of(problems) != 2
            ? compare_with_reference(triax_facts(*input.loaded),
                                     *context.reference)
            : std::nullopt;
    if (shown) {
      problems.push_back(*shown);
    }
    return problems;
  }
  std::vector<Problem> problems = mark_problems(input);
  append(problems, check_foreign(*input.config, context), input.file);
  return problems;
}

// Two files of different systems are one run.
bool is_pair(const std::vector<CheckInput>& inputs) {
  return inputs.size() == 2 && inputs[0].config && inputs[1].config &&
         inputs[0].system != inputs[1].system;
}

bool are_of_several_systems(const std::vector<CheckInput>& inputs) {
  std::optional<System> first;
  for (const CheckInput& input : inputs) {
    if (!input.problem && first.value_or(input.system) != input.system) {
      return true;
    }
    if (!input.problem) {
      first = input.system;
    }
  }
  return false;
}

std::vector<Problem> check_all(const std::vector<CheckInput>& inputs,
                               const ForeignContext& context) {
  std::vector<Problem> all;
  if (is_pair(inputs)) {
    for (const CheckInput& input : inputs) {
      const std::vector<Problem> problems = mark_problems(input);
      all.insert(all.end(), problems.begin(), problems.end());
    }
    append(all,
           check_pair(*inputs[0].config, *inputs[1].config, context),
           inputs[0].file);
    return all;
  }
  for (const CheckInput& input : inputs) {
    const std::vector<Problem> problems = check_input(input, context);
    all.insert(all.end(), problems.begin(), problems.end());
  }
  if (are_of_several_systems(inputs)) {
    all.push_back({Severity::kNote,
                   "not-judged",
                   "",
                   {inputs[0].file, 0, 0},
                   "configs of several systems, each checked alone: what they "
                   "say against each other is judged of two, none of them "
                   "triax's"});
  }
  return all;
}

void print_all(const std::vector<Problem>& problems,
               const std::string& format) {
  if (format == "json") {
    fmt::print("{}\n", to_json(problems));
  } else if (format == "sarif") {
    fmt::print("{}\n", to_sarif(problems, TRIAX_VERSION));
  } else if (format == "github") {
    fmt::print("{}", to_github(problems));
  } else {
    print_text(problems);
  }
}

int check_files(const CheckArguments& arguments) {
  if (!arguments.to.empty()) {
    check_translation_arguments(arguments);
  }
  const ForeignContext context = make_context(arguments);
  std::vector<CheckInput> inputs = read_inputs(arguments, context);
  std::vector<Problem> problems = check_all(inputs, context);
  if (!arguments.to.empty()) {
    return translate_input(inputs, problems, arguments, context);
  }
  if (arguments.fixes) {
    fix_inputs(inputs, problems, context);
    problems = check_all(inputs, context);
  }
  print_all(problems, arguments.format);
  return code_of_findings(problems);
}

// An empty word is a slip, a variable that is not set most likely.
std::string refuse_empty(const std::string& text) {
  return text.empty() ? "its value is empty" : "";
}

}  // namespace

void add_check_verb(CLI::App& app,
                    Verb& verb,
                    const std::vector<std::string>& words) {
  auto arguments = std::make_shared<CheckArguments>();
  arguments->words = words;
  CLI::App* check = app.add_subcommand(
      "check",
      "Find every mistake in configs of triax, DeepSpeed, Megatron-LM,\n"
      "TorchTitan and nanotron before anything starts.");
  check->add_option("FILE", arguments->files, "configs; two are one run's pair")
      ->required(words.empty());
  check
      ->add_option("--kind",
                   arguments->kind,
                   "triax, deepspeed, megatron, torchtitan or nanotron, "
                   "@VERSION for another than the newest; else told from "
                   "name and content")
      ->check(refuse_empty);
  check
      ->add_option(
          "--model", arguments->model, "a model's name, or its config.json")
      ->check(refuse_empty);
  check
      ->add_option(
          "--world,--ranks", arguments->num_ranks, "ranks that there will be")
      ->check(CLI::Range(1, 1 << 16));
  check
      ->add_option("--cluster",
                   arguments->cluster,
                   "TOML: hosts, devices_per_host, device_memory, network")
      ->check(refuse_empty);
  check
      ->add_option("--reference",
                   arguments->reference,
                   "the config of a run that this one was made from")
      ->check(refuse_empty);
  check
      ->add_option("--format", arguments->format, "text, json, sarif or github")
      ->check(CLI::IsMember({"text", "json", "sarif", "github"}));
  check
      ->add_option(
          "--to", arguments->to, "write the same run for another system")
      ->check(refuse_empty);
  check->add_flag("--fix",
                  arguments->fixes,
                  "write the safe fixes and show them on stderr");
  check->footer("After -- stand Megatron-LM's arguments.");
  check->callback([arguments, &verb] {
    verb = [arguments] { return check_files(*arguments); };
  });
}

}  // namespace triax
