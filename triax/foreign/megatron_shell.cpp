// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <unordered_map>

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_shell_syntax.h"
#include "triax/foreign/megatron_shell_tests.h"
#include "triax/foreign/megatron_shell_values.h"

namespace triax {
namespace {

constexpr size_t kMaxCopiedBytes = 64 << 20;
constexpr size_t kMaxValueBytes = 1 << 20;
constexpr int kMaxCommands = 200'000;
constexpr int kMaxCalls = 20;
constexpr int kMaxWordDepth = 20;
constexpr size_t kMaxRuns = 1000;

using MaybeBool = std::optional<bool>;

class Follower {
 public:
  explicit Follower(const std::map<std::string, std::string>& given) {
    for (const auto& [name, text] : given) {
      variables_[name] = {false, {{{{text, 0}}}}};
    }
  }

  ShellRuns follow(const ShellScript& script) {
    run_list(script.commands);
    for (auto& [name, value] : variables_) {
      result_.variables[name] = value.items;
    }
    return std::move(result_);
  }

 private:
  // ---- variables ----

  const ShellValue* find(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }

  void set(const std::string& name, std::optional<ShellValue> value) {
    const ShellValue* old = find(name);
    if (!changes_.empty()) {
      changes_.back()->try_emplace(
          name,
          old == nullptr ? std::nullopt : std::optional<ShellValue>(*old));
    }
    if (value) {
      variables_[name] = std::move(*value);
    } else {
      variables_.erase(name);
    }
  }

  bool spend(size_t bytes, size_t offset) {
    copied_ += bytes;
    if (copied_ > kMaxCopiedBytes) {
      fail("its variables expand to more than 64 MB", offset);
      return false;
    }
    return true;
  }

  void fail(const std::string& why, size_t offset) {
    if (result_.error.empty()) {
      result_.error = why;
      result_.error_offset = offset;
    }
  }

  bool has_failed() const { return !result_.error.empty(); }

  // ---- words ----

  std::vector<ShellField> expand(const ShellWord& word) {
    ShellFieldBuilder builder;
    expand_into(word, builder, false, 0);
    return builder.take();
  }

  std::vector<ShellField> expand(const std::vector<ShellWord>& words) {
    std::vector<ShellField> fields;
    for (const ShellWord& word : words) {
      for (ShellField& field : expand(word)) {
        fields.push_back(std::move(field));
      }
      if (has_failed()) {
        break;
      }
    }
    return fields;
  }

  // One field whatever the word holds, as in an assignment.
  ShellField expand_whole(const ShellWord& word) {
    ShellFieldBuilder builder;
    expand_into(word, builder, true, 0);
    ShellField whole;
    for (ShellField& field : builder.take()) {
      if (!whole.pieces.empty()) {
        whole.pieces.push_back({" ", field.offset()});
      }
      for (ShellPiece& piece : field.pieces) {
        whole.pieces.push_back(std::move(piece));
      }
    }
    return whole;
  }

  void expand_into(const ShellWord& word,
                   ShellFieldBuilder& builder,
                   bool is_whole,
                   int depth) {
    for (const ShellPart& part : word.parts) {
      const bool quoted = part.is_quoted || is_whole;
      if (!spend(part.text.size() + 16, part.offset)) {
        return;
      }
      switch (part.kind) {
        case ShellPart::Kind::kText:
          builder.add({part.text, part.offset});
          break;
        case ShellPart::Kind::kArithmetic:
          builder.add(arithmetic_piece(part));
          break;
        case ShellPart::Kind::kCommand: {
          ShellPiece piece = unknown_piece("$(" + part.text + ")", part.offset);
          piece.is_open = !quoted;
          builder.add(std::move(piece));
          break;
        }
        case ShellPart::Kind::kParameter:
          expand_parameter(part, builder, quoted, depth);
          break;
      }
    }
  }

  ShellPiece arithmetic_piece(const ShellPart& part) {
    const std::optional<int64_t> number = arithmetic(part.text);
    if (!number) {
      return unknown_piece("$((" + part.text + "))", part.offset);
    }
    return {std::to_string(*number), part.offset};
  }

  std::optional<int64_t> arithmetic(std::string_view formula) {
    return shell_arithmetic(formula, [&](std::string_view name) {
      const std::optional<std::string> text = known_text(std::string(name));
      return text ? whole_number(*text) : std::nullopt;
    });
  }

  std::optional<std::string> known_text(const std::string& name) {
    ShellPart part;
    part.kind = ShellPart::Kind::kParameter;
    part.text = name;
    ShellFieldBuilder builder;
    expand_parameter(part, builder, true, kMaxWordDepth);
    const std::vector<ShellField> fields = builder.take();
    if (fields.size() != 1 || !fields[0].is_known()) {
      return std::nullopt;
    }
    return fields[0].text();
  }

  struct Parameter {
    std::string name;
    std::string subscript;
    std::string op;  // "", ":-", "-", ":=", "=", ":+", "+" or "?" for others
    std::string word;
    size_t word_offset = 0;
  };

  static Parameter parse_parameter(const ShellPart& part) {
    Parameter result;
    const std::string& text = part.text;
    size_t at = 0;
    while (at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
            text[at] == '_')) {
      ++at;
    }
    if (at == 0) {
      at = text.empty() ? 0 : 1;
    }
    result.name = text.substr(0, at);
    if (at < text.size() && text[at] == '[') {
      const size_t end = text.find(']', at);
      if (end == std::string::npos) {
        result.op = "?";
        return result;
      }
      result.subscript = text.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    size_t op_length = 0;
    if (at < text.size()) {
      op_length = text[at] == ':' && at + 1 < text.size() ? 2 : 1;
      result.op = text.substr(at, op_length);
    }
    static const std::string_view kKnown[] = {":-", "-", ":=", "=", ":+", "+"};
    if (!result.op.empty() &&
        std::find(std::begin(kKnown), std::end(kKnown), result.op) ==
            std::end(kKnown)) {
      result.op = result.op.back() == '?' ? "" : "?";
      return result;
    }
    result.word = text.substr(std::min(text.size(), at + op_length));
    result.word_offset = part.offset + 2 + at + op_length;
    return result;
  }

  void expand_parameter(const ShellPart& part,
                        ShellFieldBuilder& builder,
                        bool quoted,
                        int depth) {
    const Parameter parameter = parse_parameter(part);
    const char first = parameter.name.empty() ? '\0' : parameter.name[0];
    const bool is_length =
        part.text.size() > 1 && (first == '#' || first == '!');
    if (parameter.op == "?" || is_length || first == '\0') {
      add_unknown(part, builder, quoted, false);
      return;
    }
    if (first == '@' || first == '*') {
      add_positional(builder, quoted, first == '*');
      return;
    }
    const std::optional<ShellValue> value = value_of(parameter);
    if (!parameter.op.empty()) {
      expand_default(part, parameter, value, builder, quoted, depth);
    } else if (!value) {
      add_unknown(part, builder, quoted, true);
    } else {
      add_value(*value, parameter, part, builder, quoted);
    }
  }

  void add_unknown(const ShellPart& part,
                   ShellFieldBuilder& builder,
                   bool quoted,
                   bool is_unset) {
    const bool is_plain =
        std::all_of(part.text.begin(), part.text.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        });
    ShellPiece piece = unknown_piece(
        is_plain ? "$" + part.text : "${" + part.text + "}", part.offset);
    piece.is_unset = is_unset;
    piece.is_open = !quoted;
    builder.add(std::move(piece));
  }

  void add_positional(ShellFieldBuilder& builder, bool quoted, bool joins) {
    if (calls_.empty()) {
      return;  // as the script stands: nothing
    }
    add_items(calls_.back(), builder, quoted, joins);
  }

  void add_items(const std::vector<ShellField>& items,
                 ShellFieldBuilder& builder,
                 bool quoted,
                 bool joins) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        if (quoted && joins) {
          builder.add({" ", items[i].offset()});
        } else {
          builder.end_field();
        }
      }
      add_pieces(items[i], builder, quoted);
    }
  }

  void add_pieces(const ShellField& field,
                  ShellFieldBuilder& builder,
                  bool quoted) {
    for (const ShellPiece& piece : field.pieces) {
      if (!spend(piece.text.size() + 32, piece.offset)) {
        return;
      }
      if (quoted) {
        builder.add(piece);
      } else {
        builder.add_split(piece);
      }
    }
  }

  std::optional<ShellValue> value_of(const Parameter& parameter) {
    const char first = parameter.name[0];
    if (std::isdigit(static_cast<unsigned char>(first)) != 0) {
      const std::optional<int64_t> number = whole_number(parameter.name);
      const bool is_argument =
          !calls_.empty() && number && *number > 0 &&
          static_cast<size_t>(*number) <= calls_.back().size();
      if (!is_argument) {
        return std::nullopt;
      }
      return ShellValue{false,
                        {calls_.back()[static_cast<size_t>(*number) - 1]}};
    }
    const ShellValue* value = find(parameter.name);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (spend(bytes_of(*value), 0)) {
      return *value;
    }
    return std::nullopt;
  }

  void add_value(const ShellValue& value,
                 const Parameter& parameter,
                 const ShellPart& part,
                 ShellFieldBuilder& builder,
                 bool quoted) {
    const std::string& subscript = parameter.subscript;
    if (subscript == "@" || subscript == "*") {
      add_items(value.items, builder, quoted, subscript == "*");
      return;
    }
    size_t index = 0;
    if (!subscript.empty()) {
      const std::optional<int64_t> number = arithmetic(subscript);
      if (!number || *number < 0) {
        add_unknown(part, builder, quoted, false);
        return;
      }
      index = static_cast<size_t>(*number);
    }
    if (index < value.items.size()) {
      if (quoted && value.items[index].pieces.empty()) {
        builder.add({"", part.offset});
      }
      add_pieces(value.items[index], builder, quoted);
    }
  }

  // ${X:-word} and its kin. A variable that nothing sets takes the default.
  void expand_default(const ShellPart& part,
                      const Parameter& parameter,
                      const std::optional<ShellValue>& value,
                      ShellFieldBuilder& builder,
                      bool quoted,
                      int depth) {
    const bool is_unknown =
        value && std::any_of(value->items.begin(),
                             value->items.end(),
                             [](const ShellField& f) { return !f.is_known(); });
    bool has_value = value.has_value();
    if (value && !is_unknown && parameter.op[0] == ':') {
      has_value = !value->items.empty() && !value->items[0].text().empty();
    }
    const bool is_alternative = parameter.op.back() == '+';
    if (is_alternative ? !has_value : has_value) {
      if (!is_alternative) {
        add_value(*value, parameter, part, builder, quoted);
      } else if (quoted) {
        builder.add({"", part.offset});
      }
      return;
    }
    if (is_unknown || depth >= kMaxWordDepth) {
      add_unknown(part, builder, quoted, false);
      return;
    }
    const ShellWord word =
        parse_shell_word(parameter.word, parameter.word_offset);
    if (quoted && word.parts.empty()) {
      builder.add({"", part.offset});
    }
    ShellFieldBuilder inner;
    expand_into(word, inner, true, depth + 1);
    for (const ShellField& field : inner.take()) {
      if (parameter.op.back() == '=') {
        set(parameter.name, ShellValue{false, {field}});
      }
      add_pieces(field, builder, quoted);
    }
  }

  // ---- commands ----

  MaybeBool run_list(const ShellList& list) {
    MaybeBool status = true;
    bool was_test = false;
    for (const ShellNode& node : list) {
      if (has_failed()) {
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
      fail("it has more than 200,000 commands", node.offset);
      return std::nullopt;
    }
    switch (node.kind) {
      case ShellNode::Kind::kSimple:
        return run_simple(node);
      case ShellNode::Kind::kGroup:
        return run_list(node.branches[0].body);
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
        const std::optional<int64_t> number = arithmetic(node.name);
        return number ? MaybeBool(*number != 0) : std::nullopt;
      }
    }
    return std::nullopt;
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
    const ShellField subject = expand_whole(node.words[0]);
    std::vector<const ShellList*> bodies;
    bool is_certain = false;
    for (const ShellNode::Branch& branch : node.branches) {
      bool may_match = !subject.is_known();
      for (const ShellWord& word : branch.patterns) {
        const ShellField pattern = expand_whole(word);
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
      const std::vector<ShellField> items = expand(node.words);
      if (items.size() == 1 && items[0].is_known() && node.name != "(") {
        set(node.name, ShellValue{false, {items[0]}});
        run_list(branch.body);
        return;
      }
      if (node.name != "(") {
        set(node.name,
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
    std::vector<Changes> finals;
    for (const ShellList* body : bodies) {
      Changes changes;
      changes_.push_back(&changes);
      run_list(*body);
      changes_.pop_back();
      finals.push_back(take_back(changes));
    }
    merge(finals, is_certain);
  }

  void follow_branches(const std::vector<const ShellNode*>& nodes,
                       bool is_certain) {
    std::vector<Changes> finals;
    for (const ShellNode* node : nodes) {
      Changes changes;
      changes_.push_back(&changes);
      run(*node);
      changes_.pop_back();
      finals.push_back(take_back(changes));
    }
    merge(finals, is_certain);
  }

  using Changes = std::unordered_map<std::string, std::optional<ShellValue>>;

  // Undoes the changes and returns what they made.
  Changes take_back(Changes& before) {
    Changes after;
    for (auto& [name, old] : before) {
      const ShellValue* now = find(name);
      after[name] =
          now == nullptr ? std::nullopt : std::optional<ShellValue>(*now);
      if (old) {
        spend(bytes_of(*old), 0);
        variables_[name] = std::move(*old);
      } else {
        variables_.erase(name);
      }
    }
    return after;
  }

  void merge(const std::vector<Changes>& branches, bool is_certain) {
    std::map<std::string, int> names;
    for (const Changes& changes : branches) {
      for (const auto& [name, value] : changes) {
        ++names[name];
      }
    }
    for (const auto& [name, count] : names) {
      const ShellValue* old = find(name);
      std::vector<ShellValue> candidates;
      for (const Changes& changes : branches) {
        const auto found = changes.find(name);
        if (found != changes.end() && found->second) {
          candidates.push_back(*found->second);
        }
      }
      const bool keeps_old =
          !is_certain || static_cast<size_t>(count) < branches.size();
      if (keeps_old && old != nullptr) {
        candidates.push_back(*old);
      }
      if (!candidates.empty()) {
        const bool may_be_unset = keeps_old && old == nullptr;
        set(name, merged_value(name, candidates, may_be_unset));
      }
    }
  }

  // ---- simple commands ----

  MaybeBool run_simple(const ShellNode& node) {
    const bool is_declaration = !node.words.empty() &&
                                node.words[0].parts.size() == 1 &&
                                (node.words[0].parts[0].text == "export" ||
                                 node.words[0].parts[0].text == "declare" ||
                                 node.words[0].parts[0].text == "local" ||
                                 node.words[0].parts[0].text == "readonly" ||
                                 node.words[0].parts[0].text == "typeset");
    if (node.words.empty() || is_declaration) {
      for (const ShellAssignment& assignment : node.assignments) {
        assign(assignment);
        if (is_declaration) {
          exported_.insert_or_assign(assignment.name, true);
        }
      }
      for (const ShellWord& word : node.words) {
        exported_.insert_or_assign(expand_whole(word).text(), true);
      }
      return node.words.empty() ? MaybeBool(true) : std::nullopt;
    }
    if (is_test(node)) {
      return run_test(node);
    }
    const std::vector<ShellField> fields = expand(node.words);
    if (fields.empty() || has_failed()) {
      return std::nullopt;
    }
    return run_command(node, fields);
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
    if (name == "unset") {
      for (const ShellField& field : fields) {
        set(field.text(), std::nullopt);
      }
      return std::nullopt;
    }
    if (name == "source" || name == ".") {
      result_.reads_others = true;
      return std::nullopt;
    }
    const auto function = functions_.find(name);
    if (function != functions_.end() &&
        static_cast<int>(calls_.size()) < kMaxCalls) {
      calls_.emplace_back(fields.begin() + 1, fields.end());
      run_list(*function->second);
      calls_.pop_back();
      return std::nullopt;
    }
    record(node, fields);
    return std::nullopt;
  }

  void record(const ShellNode& node, const std::vector<ShellField>& fields) {
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
    if (!has_dashes || result_.runs.size() >= kMaxRuns) {
      return;
    }
    for (const auto& [exported, is_set] : exported_) {
      const ShellValue* value = find(exported);
      if (value != nullptr && !value->items.empty()) {
        run.environment[exported] = value->items[0];
      }
    }
    for (const ShellAssignment& assignment : node.assignments) {
      if (!assignment.words.empty()) {
        run.environment[assignment.name] = expand_whole(assignment.words[0]);
      }
    }
    for (const ShellField& field : run.fields) {
      spend(field.text().size(), node.offset);
    }
    result_.runs.push_back(std::move(run));
  }

  // bash -c "a b --c" and eval "a b": the string is the command.
  static std::vector<ShellField> with_strings_split(
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

  static bool ends_command(const std::string& word) {
    return word.find_first_of("|<>;") != std::string::npos &&
           word.find_first_of("|<>;") <= 1;
  }

  void assign(const ShellAssignment& assignment) {
    ShellValue value;
    value.is_array = assignment.is_array;
    if (assignment.is_array) {
      value.items = expand(assignment.words);
    } else if (!assignment.words.empty()) {
      value.items.push_back(expand_whole(assignment.words[0]));
    }
    if (assignment.appends) {
      append(assignment, value);
    }
    if (bytes_of(value) > kMaxValueBytes) {
      value = ShellValue{false,
                         {{{unknown_piece("$" + assignment.name,
                                          assignment.words[0].offset)}}}};
    }
    set(assignment.name, std::move(value));
  }

  void append(const ShellAssignment& assignment, ShellValue& value) {
    const ShellValue* old = find(assignment.name);
    if (old == nullptr || !spend(bytes_of(*old), 0)) {
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

  // ---- tests ----

  MaybeBool run_test(const ShellNode& node) {
    std::vector<ShellField> words;
    for (const ShellWord& word : node.words) {
      words.push_back(expand_whole(word));
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

  std::unordered_map<std::string, ShellValue> variables_;
  std::map<std::string, bool> exported_;
  std::unordered_map<std::string, const ShellList*> functions_;
  std::vector<Changes*> changes_;
  std::vector<std::vector<ShellField>> calls_;
  ShellRuns result_;
  size_t copied_ = 0;
  int num_commands_ = 0;
};

}  // namespace

std::string ShellField::text() const {
  std::string whole;
  for (const ShellPiece& piece : pieces) {
    whole += piece.text;
  }
  return whole;
}

bool ShellField::is_known() const {
  return std::all_of(pieces.begin(), pieces.end(), [](const ShellPiece& piece) {
    return piece.is_known;
  });
}

bool ShellField::is_maybe() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const ShellPiece& piece) {
    return piece.is_maybe;
  });
}

std::vector<ShellField> split_fields(const ShellField& field) {
  ShellFieldBuilder builder;
  for (const ShellPiece& piece : field.pieces) {
    builder.add_split(piece);
  }
  std::vector<ShellField> fields = builder.take();
  for (ShellField& word : fields) {
    for (ShellPiece& piece : word.pieces) {
      if (piece.is_known) {
        std::erase_if(piece.text, [](char c) { return c == '"' || c == '\''; });
      }
    }
  }
  return fields;
}

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
