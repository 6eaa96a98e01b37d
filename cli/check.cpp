// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/check_inputs.h"
#include "cli/checked_config.h"
#include "cli/verbs.h"
#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/check/apply_edits.h"
#include "triax/check/check.h"
#include "triax/check/foreign_check.h"
#include "triax/check/report_formats.h"
#include "triax/foreign/translate.h"
#include "triax/foreign/triax_facts.h"

namespace triax {
namespace {

void print_text(const std::vector<Problem>& problems) {
  int counts[3] = {};
  for (const Problem& problem : problems) {
    ++counts[static_cast<int>(problem.severity)];
    fmt::print("{}\n", to_text(problem));
  }
  const auto counted = [](int count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
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

std::vector<Problem> check_triax(const CheckInput& input,
                                 const CheckArguments& arguments,
                                 const ForeignContext& context) {
  LoadedConfig loaded = parse_config(input.text, input.file);
  std::optional<int> ranks = arguments.num_ranks;
  if (!ranks && context.world && *context.world < (1 << 16)) {
    ranks = static_cast<int>(*context.world);
  }
  resolve(loaded, ranks);
  return check_run(loaded, this_machine());
}

std::vector<Problem> check_input(const CheckInput& input,
                                 const CheckArguments& arguments,
                                 const ForeignContext& context) {
  if (input.problem) {
    return {*input.problem};
  }
  if (!input.config) {
    return check_triax(input, arguments, context);
  }
  std::vector<Problem> problems;
  append(problems, check_foreign(*input.config, context), input.file);
  return problems;
}

// Two files of different systems are one run.
bool is_pair(const std::vector<CheckInput>& inputs) {
  return inputs.size() == 2 && inputs[0].config && inputs[1].config &&
         inputs[0].system != inputs[1].system;
}

std::vector<Problem> check_all(const std::vector<CheckInput>& inputs,
                               const CheckArguments& arguments,
                               const ForeignContext& context) {
  std::vector<Problem> all;
  if (is_pair(inputs)) {
    append(all,
           check_pair(*inputs[0].config, *inputs[1].config, context),
           inputs[0].file);
    return all;
  }
  for (const CheckInput& input : inputs) {
    const std::vector<Problem> problems =
        check_input(input, arguments, context);
    all.insert(all.end(), problems.begin(), problems.end());
  }
  return all;
}

// Writes the safe fixes and shows them; the text then is the file's new one.
void fix_input(CheckInput& input, const std::vector<Problem>& problems) {
  if (input.text.empty() || input.problem) {
    return;
  }
  EditedText edited = apply_edits(input.text, input.file, problems);
  if (edited.num_edits == 0) {
    return;
  }
  // Through a link, so that it stays one.
  const std::string target = std::filesystem::canonical(input.file).string();
  if (read_file(target, static_cast<int64_t>(input.text.size())) !=
      input.text) {
    throw Error(input.file, " changed while it was checked; nothing was fixed");
  }
  write_file_atomically(target, edited.text);
  fmt::print(stderr, "{}", edited.diff);
  input.text = std::move(edited.text);
  parse_input(input);
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

RunFacts facts_of(const CheckInput& input, const CheckArguments& arguments) {
  if (input.config) {
    return find_system(input.system)->facts(*input.config);
  }
  LoadedConfig loaded = parse_config(input.text, input.file);
  resolve(loaded, arguments.num_ranks);
  return triax_facts(loaded);
}

// The config on stdout, what was not carried on stderr.
int translate_file(const std::vector<CheckInput>& inputs,
                   const std::vector<Problem>& problems,
                   const CheckArguments& arguments) {
  const std::optional<System> to = parse_system(arguments.to);
  if (!to || inputs.size() != 1) {
    throw Error(
        "--to takes one config, and triax, deepspeed, megatron, "
        "torchtitan or nanotron");
  }
  if (const int code = exit_code_of(problems); code == 2) {
    print_text(problems);
    return code;
  }
  const Translation result = translate(facts_of(inputs[0], arguments), *to);
  fmt::print("{}", result.text);
  for (const std::string& clause : result.lost) {
    fmt::print(stderr, "not carried: {}\n", clause);
  }
  return 0;
}

int check_files(const CheckArguments& arguments) {
  const ForeignContext context = make_context(arguments);
  std::vector<CheckInput> inputs = read_inputs(arguments);
  std::vector<Problem> problems = check_all(inputs, arguments, context);
  if (!arguments.to.empty()) {
    return translate_file(inputs, problems, arguments);
  }
  if (arguments.fixes) {
    for (CheckInput& input : inputs) {
      fix_input(input, problems);
    }
    problems = check_all(inputs, arguments, context);
  }
  print_all(problems, arguments.format);
  return code_of_findings(problems);
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
  check->add_option("--kind",
                    arguments->kind,
                    "triax, deepspeed, megatron, torchtitan or nanotron, "
                    "@VERSION for another than the newest; else told from "
                    "name and content");
  check->add_option(
      "--model", arguments->model, "a model's name, or its config.json");
  check
      ->add_option(
          "--world,--ranks", arguments->num_ranks, "ranks that there will be")
      ->check(CLI::Range(1, 1 << 16));
  check->add_option("--cluster",
                    arguments->cluster,
                    "TOML: hosts, devices_per_host, device_memory, network");
  check->add_option("--reference",
                    arguments->reference,
                    "the config of a run that this one was made from");
  check
      ->add_option("--format", arguments->format, "text, json, sarif or github")
      ->check(CLI::IsMember({"text", "json", "sarif", "github"}));
  check->add_option(
      "--to", arguments->to, "write the same run for another system");
  check->add_flag("--fix",
                  arguments->fixes,
                  "write the safe fixes and show them on stderr");
  check->footer("After -- stand Megatron-LM's arguments.");
  check->callback([arguments, &verb] {
    verb = [arguments] { return check_files(*arguments); };
  });
}

}  // namespace triax
