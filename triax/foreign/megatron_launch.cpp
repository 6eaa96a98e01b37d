// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_launch.h"

#include <algorithm>
#include <optional>

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_shell.h"

namespace triax {
namespace {

// What the words before the script say of the world.
class LaunchReader {
 public:
  LaunchReader(const LaunchCommand& command,
               const std::map<std::string, std::string>& given,
               const PositionOf& position_of)
      : command_(command), given_(given), position_of_(position_of) {}

  ConfigTable read() {
    const std::vector<ShellField>& fields = command_.fields;
    const size_t end = command_.script;
    bool has_torch = false;
    bool has_deepspeed = false;
    bool has_step = false;
    for (size_t i = 0; i < end && i < fields.size(); ++i) {
      const std::string word = fields[i].text();
      has_torch = has_torch || word.find("torchrun") != std::string::npos ||
                  word.starts_with("torch.distributed");
      has_deepspeed =
          has_deepspeed || word == "deepspeed" || word.ends_with("/deepspeed");
      has_step =
          has_step || word == "srun" || word == "mpirun" || word == "mpiexec";
    }
    if (has_torch || has_deepspeed) {
      read_launcher(fields, end, has_torch);
    } else if (has_step) {
      read_step(fields, end);
    }
    if (command_.script < command_.first_argument) {
      add_text("script", fields[command_.script]);
    }
    return std::move(table_);
  }

 private:
  struct Number {
    std::optional<int64_t> value;
    Position position;
    bool is_setting = false;  // of a variable
  };

  void read_launcher(const std::vector<ShellField>& fields,
                     size_t end,
                     bool is_torch) {
    const Number per_node = option(fields, end, {"nproc-per-node", "num-gpus"});
    const Number nodes = option(fields, end, {"nnodes", "num-nodes"});
    // torchrun: one node and one process unless it is told; deepspeed looks
    // for a hostfile.
    const auto or_one = [&](const Number& number) {
      return number.value || number.position.line > 0 || !is_torch
                 ? number.value
                 : std::optional<int64_t>(1);
    };
    add_world({or_one(nodes), nodes.position, nodes.is_setting},
              {or_one(per_node), per_node.position, per_node.is_setting});
  }

  void read_step(const std::vector<ShellField>& fields, size_t end) {
    const Number tasks = option(fields, end, {"ntasks", "n", "np"});
    if (tasks.value) {
      add_world({1, {}, tasks.is_setting}, tasks);
      return;
    }
    const Number per_node = option(fields, end, {"ntasks-per-node"});
    const Number nodes = option(fields, end, {"nodes", "N"});
    add_world(nodes.value ? nodes : of_batch("nodes"),
              per_node.value ? per_node : of_batch("ntasks-per-node"));
  }

  Number of_batch(const std::string& name) const {
    const auto found = given_.find(name);
    return {found == given_.end() ? std::nullopt : whole_number(found->second),
            {},
            false};
  }

  void add_world(const Number& nodes, const Number& per_node) {
    const Position& position = per_node.position;
    const auto is_count = [](const Number& number) {
      return number.value && *number.value > 0;
    };
    if (is_count(nodes)) {
      table_.push_back({"nodes", position, {*nodes.value, position}});
    }
    if (is_count(per_node)) {
      table_.push_back(
          {"ranks-per-node", position, {*per_node.value, position}});
    }
    int64_t world = 0;
    if (is_count(nodes) && is_count(per_node) &&
        !__builtin_mul_overflow(*nodes.value, *per_node.value, &world)) {
      table_.push_back({"world", position, {world, position}});
      // NNODES=1 at the top of an example is there to be changed.
      if (nodes.is_setting) {
        table_.push_back({"world-is-a-setting", position, {true, position}});
      }
    }
  }

  // --name N, --name=N or -n N; underscores are dashes. A position without a
  // value: it is given and not known.
  Number option(const std::vector<ShellField>& fields,
                size_t end,
                std::initializer_list<std::string_view> names) const {
    Number number;
    for (size_t i = 0; i < end && i < fields.size(); ++i) {
      std::string word = fields[i].text();
      if (!word.starts_with('-')) {
        continue;
      }
      word.erase(0, word.starts_with("--") ? 2 : 1);
      const size_t equals = word.find('=');
      std::string name = word.substr(0, equals);
      std::replace(name.begin(), name.end(), '_', '-');
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        continue;
      }
      if (equals != std::string::npos) {
        number = number_of(fields[i], word.substr(equals + 1));
      } else if (i + 1 < fields.size()) {
        number = number_of(fields[i + 1], fields[i + 1].text());
      }
    }
    return number;
  }

  Number number_of(const ShellField& field, const std::string& text) const {
    const bool is_setting = std::any_of(
        field.pieces.begin(), field.pieces.end(), [](const ShellPiece& piece) {
          return piece.is_setting;
        });
    return {field.is_known() ? whole_number(text) : std::nullopt,
            position_of_(field.offset()),
            is_setting};
  }

  void add_text(const std::string& key, const ShellField& field) {
    const Position position = position_of_(field.offset());
    table_.push_back({key, position, {field.text(), position}});
  }

  const LaunchCommand& command_;
  const std::map<std::string, std::string>& given_;
  const PositionOf& position_of_;
  ConfigTable table_;
};

}  // namespace

std::map<std::string, std::string> read_batch_lines(std::string_view text) {
  std::map<std::string, std::string> options;
  size_t at = 0;
  for (int line = 0; line < 200 && at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string words(text.substr(at, end - at));
    at = end + 1;
    if (!words.starts_with("#SBATCH") || words.size() > 1000) {
      continue;
    }
    std::replace(words.begin(), words.end(), '=', ' ');
    ShellField field{{{words, 0}}};
    const std::vector<ShellField> fields = split_fields(field);
    for (size_t i = 1; i + 1 < fields.size(); ++i) {
      const std::string name = fields[i].text();
      if (name.starts_with("--")) {
        options[name.substr(2)] = fields[i + 1].text();
      } else if (name == "-N" || name == "-n") {
        options[name == "-N" ? "nodes" : "ntasks"] = fields[i + 1].text();
      }
    }
  }
  return options;
}

std::map<std::string, std::string> slurm_variables(
    const std::map<std::string, std::string>& options) {
  static const std::pair<std::string_view, std::string_view> kNames[] = {
      {"nodes", "SLURM_NNODES"},
      {"nodes", "SLURM_JOB_NUM_NODES"},
      {"ntasks", "SLURM_NTASKS"},
      {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
      {"gpus-per-node", "SLURM_GPUS_PER_NODE"},
      {"gpus-per-node", "SLURM_GPUS_ON_NODE"}};
  std::map<std::string, std::string> variables;
  for (const auto& [option, variable] : kNames) {
    const auto found = options.find(std::string(option));
    if (found != options.end() && whole_number(found->second)) {
      variables[std::string(variable)] = found->second;
    }
  }
  return variables;
}

ConfigTable read_launch(const LaunchCommand& command,
                        const std::map<std::string, std::string>& batch,
                        const PositionOf& position_of) {
  return LaunchReader(command, batch, position_of).read();
}

}  // namespace triax
