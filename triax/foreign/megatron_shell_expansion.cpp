// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_expansion.h"

#include <algorithm>
#include <cctype>

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_shell_words.h"

namespace triax {
namespace {

constexpr int kMaxWordDepth = 20;

struct Parameter {
  std::string name;
  std::string subscript;
  std::string op;  // "", ":-", "-", ":=", "=", ":+", "+" or "?" for others
  std::string word;
  size_t word_offset = 0;
};

Parameter parse_parameter(const ShellPart& part) {
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

// "$@" or "${ARRAY[@]}" alone: without items it is no word at all.
bool is_list(const ShellWord& word) {
  const auto is_all = [](const ShellPart& part) {
    return part.kind == ShellPart::Kind::kParameter &&
           (part.text == "@" || part.text.ends_with("[@]"));
  };
  return std::any_of(word.parts.begin(), word.parts.end(), is_all) &&
         std::all_of(
             word.parts.begin(), word.parts.end(), [&](const ShellPart& part) {
               return is_all(part) || (part.kind == ShellPart::Kind::kText &&
                                       part.text.empty());
             });
}

// One word, and what it expands to.
class WordExpander {
 public:
  explicit WordExpander(ShellState& state) : state_(state) {}

  void expand_into(const ShellWord& word,
                   ShellFieldBuilder& builder,
                   bool is_whole,
                   int depth) {
    for (const ShellPart& part : word.parts) {
      const bool quoted = part.is_quoted || is_whole;
      if (!state_.spend(part.text.size() + 16, part.offset)) {
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

  std::optional<int64_t> arithmetic(std::string_view formula) {
    return shell_arithmetic(formula, [&](std::string_view name) {
      const std::optional<std::string> text = known_text(std::string(name));
      return text ? whole_number(*text) : std::nullopt;
    });
  }

 private:
  ShellPiece arithmetic_piece(const ShellPart& part) {
    const std::optional<int64_t> number = arithmetic(part.text);
    if (!number) {
      return unknown_piece("$((" + part.text + "))", part.offset);
    }
    ShellPiece piece{std::to_string(*number), part.offset};
    piece.is_setting =
        std::any_of(part.text.begin(), part.text.end(), is_shell_name_start);
    return piece;
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
    piece.is_unset = is_unset && !state_.reads_others;
    piece.is_open = !quoted;
    builder.add(std::move(piece));
  }

  void add_positional(ShellFieldBuilder& builder, bool quoted, bool joins) {
    if (state_.calls.empty()) {
      return;  // as the script stands: nothing
    }
    add_items(state_.calls.back(), builder, quoted, joins);
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

  // All that a variable holds, or its default.
  void add_single(ShellField field, ShellFieldBuilder& builder, bool quoted) {
    if (field.is_known() && whole_number(field.text())) {
      for (ShellPiece& piece : field.pieces) {
        piece.is_setting = true;
      }
    }
    add_pieces(field, builder, quoted);
  }

  void add_pieces(const ShellField& field,
                  ShellFieldBuilder& builder,
                  bool quoted) {
    for (const ShellPiece& piece : field.pieces) {
      if (!state_.spend(piece.text.size() + 32, piece.offset)) {
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
          !state_.calls.empty() && number && *number > 0 &&
          static_cast<size_t>(*number) <= state_.calls.back().size();
      if (!is_argument) {
        return std::nullopt;
      }
      return ShellValue{
          false, {state_.calls.back()[static_cast<size_t>(*number) - 1]}};
    }
    const ShellValue* value = state_.find(parameter.name);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (state_.spend(bytes_of(*value), 0)) {
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
      add_single(value.items[index], builder, quoted);
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
    const bool may_be_set = !value && state_.reads_others;
    if (is_unknown || may_be_set || depth >= kMaxWordDepth) {
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
    for (ShellField& field : inner.take()) {
      for (ShellPiece& piece : field.pieces) {
        piece.is_default = true;
      }
      if (parameter.op.back() == '=') {
        state_.set(parameter.name, ShellValue{false, {field}});
      }
      add_single(field, builder, quoted);
    }
  }

  ShellState& state_;
};

}  // namespace

std::vector<ShellField> ShellExpansion::expand(const ShellWord& word) {
  ShellFieldBuilder builder;
  WordExpander(state_).expand_into(word, builder, false, 0);
  std::vector<ShellField> fields = builder.take();
  if (fields.size() == 1 && fields[0].text().empty() && is_list(word)) {
    fields.clear();
  }
  return fields;
}

std::vector<ShellField> ShellExpansion::expand(
    const std::vector<ShellWord>& words) {
  std::vector<ShellField> fields;
  for (const ShellWord& word : words) {
    for (ShellField& field : expand(word)) {
      fields.push_back(std::move(field));
    }
    if (state_.has_failed()) {
      break;
    }
  }
  return fields;
}

ShellField ShellExpansion::expand_whole(const ShellWord& word) {
  ShellFieldBuilder builder;
  WordExpander(state_).expand_into(word, builder, true, 0);
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

std::optional<int64_t> ShellExpansion::arithmetic(std::string_view formula) {
  return WordExpander(state_).arithmetic(formula);
}

}  // namespace triax
