// SPDX-License-Identifier: Apache-2.0
#include "cli/check_translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/checked_config.h"
#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/check/check.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/model_details.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate.h"

namespace triax {
namespace {

void say(const std::string& line) {
  std::string text = escape_controls(line);
  std::replace(text.begin(), text.end(), '\n', ' ');
  fmt::print(stderr, "{}\n", text);
}

void say_errors(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) {
    if (problem.severity == Severity::kError) {
      fmt::print(stderr, "{}\n", to_text(problem));
    }
  }
}

// What triax itself says of the config that it wrote: of the same world, and a
// DeepSpeed config of the same pipeline, which its program makes.
std::vector<Problem> judge(const std::string& text,
                           System to,
                           const TranslationSource& source,
                           ForeignContext context) {
  CheckInput written{.file = fmt::format("the {} config", system_name(to)),
                     .text = text,
                     .system = to};
  const NamedFact* pp = source.find("pp");
  if (to == System::kDeepSpeed && pp != nullptr) {
    RunFacts program;
    program.pp = {pp->value.get<int64_t>(), "pp", {}, false};
    context.other = program;
  }
  // A run file says its own ranks, and of other axes than triax has none.
  parse_input(written, to == System::kTriax ? ForeignContext{} : context);
  std::vector<Problem> problems =
      written.config ? check_foreign(*written.config, context).problems
                     : check_run(*written.loaded, this_machine());
  // Only who starts the run has the data: that is said as something to fill in.
  std::erase_if(problems, [](const Problem& problem) {
    return problem.rule == "data-path";
  });
  return problems;
}

TranslationSource source_of(const CheckInput& input,
                            const std::string& model,
                            const ForeignContext& context) {
  if (!input.config) {
    return translation_source(*input.loaded);
  }
  return translation_source(
      *input.config,
      {context.world,
       context.model,
       model.empty() ? std::vector<NamedFact>{} : load_model_details(model)});
}

// "nanotron@0.4".
struct Target {
  std::string name;
  std::string version;  // empty: the newest
};

Target parse_target(const std::string& argument) {
  const size_t at = argument.find('@');
  return {argument.substr(0, at),
          at == std::string::npos ? "" : argument.substr(at + 1)};
}

}  // namespace

void check_translation_arguments(const CheckArguments& arguments) {
  const Target target = parse_target(arguments.to);
  if (!parse_system(target.name)) {
    throw Error("--to ",
                arguments.to,
                " is none of triax, deepspeed, megatron, torchtitan, nanotron "
                "(the repository's layout), nanotron@0.4 (the package's)");
  }
  const bool is_layout = target.name == "nanotron" &&
                         (target.version == "0.4" || target.version == "main");
  if (target.name != arguments.to && !is_layout) {
    throw Error("--to ",
                arguments.to,
                ": a version goes with nanotron alone, whose package and "
                "repository differ in layout: nanotron@0.4 or nanotron@main");
  }
  if (arguments.files.size() + (arguments.words.empty() ? 0 : 1) != 1) {
    throw Error("--to takes one config");
  }
  if (arguments.fixes || arguments.format != "text") {
    throw Error("--to writes a config, and goes without --fix and --format");
  }
}

int translate_input(const std::vector<CheckInput>& inputs,
                    const std::vector<Problem>& problems,
                    const CheckArguments& arguments,
                    const ForeignContext& context) {
  const Target target = parse_target(arguments.to);
  const System to = *parse_system(target.name);
  const CheckInput& input = inputs[0];
  if (const int code = exit_code_of(problems); code == 2) {
    say_errors(problems);
    return code;
  }
  if (input.system == to) {
    throw Error(input.file, " is a config of ", target.name, " already");
  }
  say_errors(problems);
  const TranslationSource source = source_of(input, arguments.model, context);
  const Translation result = translate(source, to, target.version);
  fmt::print("{}", result.text);
  for (const std::string& clause : result.lost) {
    say("not carried: " + clause);
  }
  if (!result.implied.empty()) {
    say(fmt::format("needs no key: {}", fmt::join(result.implied, ", ")));
  }
  for (const std::string& clause : result.open) {
    say("to fill in: " + clause);
  }
  const std::string detail = open_model_detail(arguments.model);
  if (!detail.empty() && source.find("rope_theta") == nullptr) {
    say("to fill in: " + detail);
  }
  const std::vector<Problem> own = judge(result.text, to, source, context);
  say_errors(own);
  return has_errors(problems) || has_errors(own) ? 1 : 0;
}

}  // namespace triax
