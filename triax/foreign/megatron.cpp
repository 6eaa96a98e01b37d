// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "triax/config/problem.h"
#include "triax/foreign/megatron_arguments.h"
#include "triax/foreign/megatron_launch.h"
#include "triax/foreign/megatron_runs.h"
#include "triax/foreign/megatron_shell.h"
#include "triax/foreign/megatron_shell_names.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

// No script is longer; arguments do not fit into a command line either.
constexpr size_t kMaxBytes = 4 << 20;

// Offsets to places, in any order and in lines of any length.
class Places {
 public:
  Places(std::string_view text, std::string file)
      : text_(text), file_(std::move(file)) {
    size_t characters = 0;
    starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (i % kBlock == 0) {
        characters_.push_back(characters);
      }
      characters += begins_character(i) ? 1 : 0;
      if (text[i] == '\n') {
        starts_.push_back(i + 1);
      }
    }
    characters_.push_back(characters);
  }

  Position at(size_t offset) const {
    offset = std::min(offset, text_.size());
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const size_t column = count_before(offset) - count_before(*(next - 1)) + 1;
    return {file_,
            static_cast<int>(next - starts_.begin()),
            static_cast<int>(column)};
  }

 private:
  static constexpr size_t kBlock = 256;

  bool begins_character(size_t at) const {
    return (static_cast<unsigned char>(text_[at]) & 0xc0) != 0x80;
  }

  size_t count_before(size_t offset) const {
    const size_t block = std::min(offset / kBlock, characters_.size() - 1);
    size_t count = characters_[block];
    for (size_t i = block * kBlock; i < offset; ++i) {
      count += begins_character(i) ? 1 : 0;
    }
    return count;
  }

  std::string_view text_;
  std::string file_;
  std::vector<size_t> starts_;
  std::vector<size_t> characters_;  // before each block
};

ForeignConfig unreadable(const std::string& file,
                         const std::string& rule,
                         const Position& position,
                         const std::string& message,
                         const std::string& fix) {
  ForeignConfig config;
  config.system = System::kMegatron;
  config.file = file;
  config.problems.push_back(
      {Severity::kError, rule, "", position, message, fix, Effect::kNone, {}});
  return config;
}

ConfigTable environment_table(const ShellRun& run,
                              const PositionOf& position_of) {
  ConfigTable table;
  for (const auto& [name, field] : run.environment) {
    const Position position = position_of(field.offset());
    ConfigValue value;
    value.position = position;
    if (field.is_known() && !field.is_maybe()) {
      value.data = field.text();
    } else {
      value.data = ForeignValue{field.text()};
    }
    table.push_back({name, position, std::move(value)});
  }
  return table;
}

// "--lr 1e-4 \" after a comment or a blank behind the backslash: a command of
// its own, which the shell cannot find.
void note_lost_arguments(const std::vector<MegatronRun>& candidates,
                         const Places& places,
                         ForeignConfig& config) {
  for (const MegatronRun& candidate : candidates) {
    if (!candidate.is_bare) {
      continue;
    }
    const ShellField& first = candidate.run->fields[0];
    config.problems.push_back(
        {Severity::kError,
         "lost-arguments",
         "",
         places.at(first.offset()),
         fmt::format("{} begins a line that continues no other, so the shell "
                     "takes it for a command and Megatron-LM never sees it or "
                     "what follows",
                     in_quotes(first.text())),
         "end the line before with a backslash and nothing behind it; a "
         "comment between continued lines ends the command",
         Effect::kSilentlyDifferent,
         {}});
    return;
  }
}

void note_other_runs(const std::vector<MegatronRun>& candidates,
                     const MegatronRun& chosen,
                     const Places& places,
                     ForeignConfig& config) {
  for (const MegatronRun& other : candidates) {
    if (other.run == chosen.run || !other.is_telling || other.is_bare) {
      continue;
    }
    config.problems.push_back(
        {Severity::kNote,
         "several-runs",
         "",
         places.at(other.run->fields[0].offset()),
         "the script starts Megatron-LM more than once, and only the command "
         "with the most arguments is looked at",
         "give the other commands to triax check after --",
         Effect::kNone,
         {}});
    return;
  }
}

void note_misspelt_variables(std::string_view text,
                             const Places& places,
                             ForeignConfig& config) {
  for (const MisspeltVariable& variable : misspelt_variables(text)) {
    config.problems.push_back(
        {Severity::kWarning,
         "misspelt-variable",
         "",
         places.at(variable.offset),
         fmt::format("nothing in the script sets {}, so the shell puts nothing "
                     "here; {}, set in line {}, is never used",
                     variable.name,
                     variable.near,
                     places.at(variable.near_offset).line),
         fmt::format("did you mean {}?", variable.near),
         Effect::kSilentlyDifferent,
         {}});
  }
}

void add_open_arguments(const OpenArguments& open,
                        ConfigTable& launch,
                        const std::string& file) {
  const auto add = [&](const char* key,
                       const std::vector<std::string>& words,
                       const char* separator) {
    if (!words.empty()) {
      launch.push_back(
          {key,
           {file, 0, 0},
           {fmt::format("{}", fmt::join(words, separator)), {file, 0, 0}}});
    }
  };
  add("open", open.words, " ");
  add("defaults", open.defaults, " | ");
}

ConfigEntry section(const std::string& key,
                    ConfigTable table,
                    const std::string& file) {
  const Position position{file, 0, 0};
  return {key, position, {std::move(table), position}};
}

void put_in_front(ConfigTable launch,
                  ConfigTable environment,
                  ForeignConfig& config) {
  ConfigTable front;
  front.push_back(section("launch", std::move(launch), config.file));
  front.push_back(section("environment", std::move(environment), config.file));
  config.table.insert(config.table.begin(),
                      std::make_move_iterator(front.begin()),
                      std::make_move_iterator(front.end()));
}

// Arguments alone: every line of a file, or arrays that nothing starts.
std::vector<ShellField> loose_arguments(
    const ShellRuns& runs, const std::vector<MegatronRun>& candidates) {
  std::vector<ShellField> fields;
  for (const MegatronRun& candidate : candidates) {
    if (candidate.is_bare) {
      fields.insert(fields.end(),
                    candidate.run->fields.begin(),
                    candidate.run->fields.end());
    }
  }
  if (!fields.empty()) {
    return fields;
  }
  std::vector<std::pair<size_t, std::vector<ShellField>>> groups;
  for (const auto& [name, items] : runs.variables) {
    std::vector<ShellField> words;
    for (const ShellField& item : items) {
      for (ShellField& word : split_fields(item)) {
        words.push_back(std::move(word));
      }
    }
    if (!words.empty() && words[0].text().starts_with("--")) {
      groups.emplace_back(words[0].offset(), std::move(words));
    }
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  for (auto& [offset, words] : groups) {
    std::move(words.begin(), words.end(), std::back_inserter(fields));
  }
  return fields;
}

void read_script(const ShellRuns& runs,
                 const std::map<std::string, std::string>& batch,
                 const Places& places,
                 ForeignConfig& config) {
  const PositionOf position_of = [&](size_t offset) {
    return places.at(offset);
  };
  const std::vector<MegatronRun> candidates = find_megatron_runs(runs);
  const MegatronRun* chosen = best_megatron_run(candidates);
  ConfigTable launch;
  ConfigTable environment;
  OpenArguments open;
  if (chosen != nullptr) {
    launch = read_launch(chosen->command(), batch, position_of);
    environment = environment_table(*chosen->run, position_of);
    open = read_arguments(
        chosen->run->fields, chosen->first_argument, position_of, config);
    note_lost_arguments(candidates, places, config);
    note_other_runs(candidates, *chosen, places, config);
  } else {
    open = read_arguments(
        loose_arguments(runs, candidates), 0, position_of, config);
  }
  add_open_arguments(open, launch, config.file);
  put_in_front(std::move(launch), std::move(environment), config);
}

}  // namespace

int megatron_likeness(std::string_view file_name, std::string_view text) {
  if (file_name.ends_with(".json") || file_name.ends_with(".toml") ||
      file_name.ends_with(".yaml") || file_name.ends_with(".yml") ||
      file_name.ends_with(".py")) {
    return 0;
  }
  text = text.substr(0, 1 << 20);
  int num_telling = 0;
  for (const std::string_view key : megatron_telling_keys()) {
    const std::string flag = "--" + std::string(key);
    num_telling += text.find(flag) != std::string_view::npos ? 1 : 0;
  }
  if (num_telling == 0) {
    return 0;
  }
  return std::min(95, 40 + 15 * num_telling);
}

ForeignConfig read_megatron(std::string_view text, const std::string& file) {
  const Position whole_file{file, 0, 0};
  if (text.size() > kMaxBytes) {
    return unreadable(file,
                      "unreadable",
                      whole_file,
                      fmt::format("it has {} bytes, and a script of arguments "
                                  "has 4 MB at most",
                                  text.size()),
                      "give the script that starts the run");
  }
  if (find_bad_utf8(text) != std::string_view::npos ||
      text.find('\0') != std::string_view::npos) {
    return unreadable(file,
                      "unreadable",
                      whole_file,
                      "it is no UTF-8 text",
                      "give a shell script or a file of arguments");
  }
  const Places places(text, file);
  const std::map<std::string, std::string> batch = read_batch_lines(text);
  const ShellRuns runs = follow_shell(text, slurm_variables(batch));
  if (!runs.error.empty()) {
    return unreadable(file,
                      "syntax",
                      places.at(runs.error_offset),
                      runs.error,
                      "mend the script; bash -n shows where");
  }
  ForeignConfig config;
  config.system = System::kMegatron;
  config.file = file;
  read_script(runs, batch, places, config);
  note_misspelt_variables(text, places, config);
  return config;
}

ForeignConfig read_megatron_words(const std::vector<std::string>& words) {
  ForeignConfig config;
  config.system = System::kMegatron;
  config.file = "command line";
  ShellRun run;
  for (const std::string& word : words) {
    run.fields.push_back({{{word, 0}}});
  }
  const PositionOf position_of = [](size_t) {
    return Position{"command line", 0, 0};
  };
  ShellRuns runs;
  runs.runs.push_back(std::move(run));
  ConfigTable launch;
  if (!words.empty()) {
    const std::vector<MegatronRun> candidates = find_megatron_runs(runs);
    if (candidates.empty()) {
      return config;
    }
    const MegatronRun& candidate = candidates[0];
    launch = read_launch(candidate.command(), {}, position_of);
    launch.push_back({"words", position_of(0), {true, position_of(0)}});
    add_open_arguments(
        read_arguments(
            runs.runs[0].fields, candidate.first_argument, position_of, config),
        launch,
        config.file);
  }
  put_in_front(std::move(launch), {}, config);
  return config;
}

}  // namespace triax
