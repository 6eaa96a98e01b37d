// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "triax/foreign/megatron_shell_builtins.h"
#include "triax/foreign/megatron_shell_expansion.h"
#include "triax/foreign/megatron_shell_runs.h"
#include "triax/foreign/megatron_shell_state.h"
#include "triax/foreign/megatron_shell_syntax.h"
#include "triax/foreign/megatron_shell_tests.h"

namespace triax {
namespace {

constexpr size_t kMaxValueBytes = 1 << 20;
constexpr int kMaxCommands = 200'000;
constexpr int kMaxCalls = 20;

using MaybeBool = std::optional<bool>;

class Follower {
 public:
  explicit Follower(const std::map<std::string, std::string>& given)
      : state_(given), expansion_(state_), builtins_(state_, expansion_) {}

  ShellRuns follow(const ShellScript& script) {
    run_list(script.commands);
    for (const auto& [name, value] : state_.variables()) {
      result_.variables[name] = value.items;
    }
    result_.error = state_.error();
    result_.error_offset = state_.error_offset();
    return std::move(result_);
  }

 private:
  MaybeBool run_list(const ShellList& list) {
    MaybeBool status = true;
    bool was_test = false;
    for (const ShellNode& node : list) {
      if (state_.has_failed()) {
        return std::nullopt;
      }
      if (node.joined_by != ';' && skips(node, status, was_test)) {
        continue;
      }
      if (node.joined_by != ';' && !status && was_test) {
        follow_branches({&node}, false);
        status = std::nullopt;
        continue;
      }
      const bool is_chained_test =
          node.joined_by != ';' && was_test && is_test(node);
      const MaybeBool before = status;
      status = run(node);
      if (is_chained_test && !before) {
        status = std::nullopt;
      }
      was_test = is_test(node);
    }
    return status;
  }

  static bool is_test(const ShellNode& node) {
    if (node.kind == ShellNode::Kind::kFormula) {
      return true;
    }
    if (node.kind != ShellNode::Kind::kSimple || node.words.empty() ||
        node.words[0].parts.size() != 1) {
      return false;
    }
    const std::string& name = node.words[0].parts[0].text;
    return name == "[" || name == "[[" || name == "test";
  }

  // After && and ||: what a command that is no test did is taken for success.
  static bool skips(const ShellNode& node, MaybeBool status, bool was_test) {
    if (!status) {
      return was_test ? false : node.joined_by == '|';
    }
    return node.joined_by == '&' ? !*status : *status;
  }

  MaybeBool run(const ShellNode& node) {
    if (++num_commands_ > kMaxCommands) {
      state_.fail("it has more than 200,000 commands", node.offset);
      return std::nullopt;
    }
    switch (node.kind) {
      case ShellNode::Kind::kSimple:
        return run_simple(node);
      case ShellNode::Kind::kGroup:
        return run_group(node);
      case ShellNode::Kind::kIf:
        run_if(node);
        return std::nullopt;
      case ShellNode::Kind::kLoop:
        run_loop(node);
        return std::nullopt;
      case ShellNode::Kind::kCase:
        run_case(node);
        return std::nullopt;
      case ShellNode::Kind::kFunction:
        functions_[node.name] = &node.branches[0].body;
        return std::nullopt;
      case ShellNode::Kind::kFormula: {
        const std::optional<int64_t> number = expansion_.arithmetic(node.name);
        builtins_.assign_formula(node.name, node.offset);
        return number ? MaybeBool(*number != 0) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  // What ( … ) sets is gone behind it.
  MaybeBool run_group(const ShellNode& node) {
    const ShellList& body = node.branches[0].body;
    if (node.name.empty()) {
      return run_list(body);
    }
    MaybeBool status;
    state_.try_branch([&] { status = run_list(body); });
    return status;
  }

  void run_if(const ShellNode& node) {
    std::vector<const ShellList*> bodies;
    bool is_certain = false;
    for (size_t i = 0; i < node.branches.size() && !is_certain; ++i) {
      const ShellNode::Branch& branch = node.branches[i];
      const bool is_else = node.has_else && i + 1 == node.branches.size();
      const MaybeBool holds = is_else ? true : run_list(branch.condition);
      if (!holds || *holds) {
        bodies.push_back(&branch.body);
        is_certain = holds.has_value();
      }
    }
    follow_bodies(bodies, is_certain);
  }

  void run_case(const ShellNode& node) {
    const ShellField subject = expansion_.expand_whole(node.words[0]);
    std::vector<const ShellList*> bodies;
    bool is_certain = false;
    for (const ShellNode::Branch& branch : node.branches) {
      bool may_match = !subject.is_known();
      for (const ShellWord& word : branch.patterns) {
        const ShellField pattern = expansion_.expand_whole(word);
        const bool is_all = pattern.text() == "*";
        if (subject.is_known() &&
            matches_pattern(pattern.text(), subject.text())) {
          may_match = true;
          is_certain = true;
        }
        is_certain = is_certain || is_all;
      }
      if (may_match) {
        bodies.push_back(&branch.body);
        if (is_certain) {
          break;
        }
      }
    }
    follow_bodies(bodies, is_certain);
  }

  void run_loop(const ShellNode& node) {
    const ShellNode::Branch& branch = node.branches[0];
    if (!node.name.empty()) {
      const std::vector<ShellField> items = expansion_.expand(node.words);
      if (items.size() == 1 && items[0].is_known() && node.name != "(") {
        state_.set(node.name, ShellValue{false, {items[0]}});
        run_list(branch.body);
        return;
      }
      if (node.name != "(") {
        state_.set(
            node.name,
            ShellValue{false,
                       {{{unknown_piece("$" + node.name, node.offset)}}}});
      }
    } else {
      run_list(branch.condition);
    }
    follow_bodies({&branch.body}, false);
  }

  void follow_bodies(const std::vector<const ShellList*>& bodies,
                     bool is_certain) {
    if (bodies.size() == 1 && is_certain) {
      run_list(*bodies[0]);
      return;
    }
    std::vector<ShellState::Changes> finals;
    for (const ShellList* body : bodies) {
      finals.push_back(state_.try_branch([&] { run_list(*body); }));
    }
    state_.merge(finals, is_certain);
  }

  void follow_branches(const std::vector<const ShellNode*>& nodes,
                       bool is_certain) {
    std::vector<ShellState::Changes> finals;
    for (const ShellNode* node : nodes) {
      finals.push_back(state_.try_branch([&] { run(*node); }));
    }
    state_.merge(finals, is_certain);
  }

  MaybeBool run_simple(const ShellNode& node) {
    if (node.words.empty() || is_declaration(node)) {
      declare(node);
      return node.words.empty() ? MaybeBool(true) : std::nullopt;
    }
    if (is_test(node)) {
      return run_test(node);
    }
    const std::vector<ShellField> fields = expansion_.expand(node.words);
    if (fields.empty() || state_.has_failed()) {
      return std::nullopt;
    }
    return run_command(node, fields);
  }

  static bool is_declaration(const ShellNode& node) {
    if (node.words[0].parts.size() != 1) {
      return false;
    }
    const std::string& name = node.words[0].parts[0].text;
    return name == "export" || name == "declare" || name == "local" ||
           name == "readonly" || name == "typeset";
  }

  // export X=1, export X, declare -x X, export $(cat .env): the last sets what
  // nobody sees.
  void declare(const ShellNode& node) {
    bool exports = false;
    for (const ShellWord& word : node.words) {
      const ShellField field = expansion_.expand_whole(word);
      const std::string text = field.text();
      exports = exports || text == "export" || text == "-x";
      state_.reads_others = state_.reads_others || !field.is_known();
      if (exports && text != "export" && text[0] != '-') {
        state_.exported.insert_or_assign(text, true);
      }
    }
    for (const ShellAssignment& assignment : node.assignments) {
      assign(assignment);
      if (exports) {
        state_.exported.insert_or_assign(assignment.name, true);
      }
    }
  }

  MaybeBool run_command(const ShellNode& node,
                        const std::vector<ShellField>& fields) {
    const std::string name = fields[0].text();
    if (name == "true" || name == ":") {
      return true;
    }
    if (name == "false") {
      return false;
    }
    const auto function = functions_.find(name);
    if (function != functions_.end() &&
        static_cast<int>(state_.calls.size()) < kMaxCalls) {
      state_.calls.emplace_back(fields.begin() + 1, fields.end());
      run_list(*function->second);
      state_.calls.pop_back();
      return std::nullopt;
    }
    if (!builtins_.run(fields)) {
      record_run(node, fields, state_, result_.runs);
    }
    return std::nullopt;
  }

  void assign(const ShellAssignment& assignment) {
    ShellValue value;
    value.is_array = assignment.is_array;
    if (assignment.is_array) {
      value.items = expansion_.expand(assignment.words);
    } else if (!assignment.words.empty()) {
      value.items.push_back(expansion_.expand_whole(assignment.words[0]));
    }
    if (assignment.appends) {
      append(assignment, value);
    }
    if (assignment.is_item || bytes_of(value) > kMaxValueBytes) {
      // Of an array whose items come one by one the length is not known.
      value = ShellValue{false,
                         {{{unknown_piece("$" + assignment.name,
                                          assignment.words[0].offset)}}}};
    }
    state_.set(assignment.name, std::move(value));
  }

  void append(const ShellAssignment& assignment, ShellValue& value) {
    const ShellValue* old = state_.find(assignment.name);
    if (old == nullptr || !state_.spend(bytes_of(*old), 0)) {
      return;
    }
    ShellValue whole = *old;
    if (assignment.is_array) {
      whole.is_array = true;
      for (ShellField& item : value.items) {
        whole.items.push_back(std::move(item));
      }
    } else {
      if (whole.items.empty()) {
        whole.items.emplace_back();
      }
      for (ShellField& item : value.items) {
        for (ShellPiece& piece : item.pieces) {
          whole.items[0].pieces.push_back(std::move(piece));
        }
      }
    }
    value = std::move(whole);
  }

  MaybeBool run_test(const ShellNode& node) {
    std::vector<ShellField> words;
    for (const ShellWord& word : node.words) {
      words.push_back(expansion_.expand_whole(word));
    }
    words.erase(words.begin());
    if (!words.empty()) {
      const std::string last = words.back().text();
      if (last == "]" || last == "]]") {
        words.pop_back();
      }
    }
    return judge_shell_test(words);
  }

  ShellState state_;
  ShellExpansion expansion_;
  ShellBuiltins builtins_;
  std::unordered_map<std::string, const ShellList*> functions_;
  ShellRuns result_;
  int num_commands_ = 0;
};

}  // namespace

ShellRuns follow_shell(std::string_view text,
                       const std::map<std::string, std::string>& given) {
  const ShellScript script = parse_shell(text);
  if (!script.error.empty()) {
    ShellRuns failed;
    failed.error = script.error;
    failed.error_offset = script.error_offset;
    return failed;
  }
  return Follower(given).follow(script);
}

}  // namespace triax
