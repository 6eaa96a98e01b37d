// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>

#include "triax/config/problem.h"
#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

constexpr size_t kMaxProblems = 200;

// "-1" and "-.5" are values to argparse, "-x" is not.
bool is_negative_number(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') {
    return false;
  }
  bool has_digit = false;
  bool has_dot = false;
  for (const char c : text.substr(1)) {
    if (c >= '0' && c <= '9') {
      has_digit = true;
    } else if (c == '.' && !has_dot) {
      has_dot = true;
    } else {
      return false;
    }
  }
  return has_digit;
}

bool looks_like_option(const ShellField& field) {
  const std::string text = field.pieces.empty() ? "" : field.pieces[0].text;
  const bool starts_known = !field.pieces.empty() && field.pieces[0].is_known;
  return starts_known && text.size() > 1 && text[0] == '-' &&
         !is_negative_number(field.text());
}

// Python's int(): underscores between digits, blanks around.
std::optional<int64_t> python_int(std::string text) {
  const size_t first = text.find_first_not_of(" \t\n");
  const size_t last = text.find_last_not_of(" \t\n");
  if (first == std::string::npos || text.find("__") != std::string::npos ||
      text[first] == '_' || text[last] == '_') {
    return std::nullopt;
  }
  text = text.substr(first, last - first + 1);
  std::erase(text, '_');
  return whole_number(text);
}

// Python's float(): also "inf", "nan" and "1e-5".
std::optional<double> python_float(std::string text) {
  if (text.starts_with('+')) {
    text.erase(0, 1);
  }
  std::erase(text, '_');
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number =
      (error == std::errc() || error == std::errc::result_out_of_range) &&
      !text.empty() && end == text.data() + text.size();
  return is_number ? std::optional<double>(number) : std::nullopt;
}

ConfigValue value_of(const ShellField& field,
                     KeyType type,
                     const Position& position) {
  ConfigValue value;
  value.position = position;
  const std::string text = field.text();
  if (!field.is_known()) {
    value.data = ForeignValue{text};
    return value;
  }
  if (field.is_maybe()) {
    value.data = ForeignValue{text + " under a condition"};
    return value;
  }
  value.data = text;
  if (type == KeyType::kWhole) {
    if (const std::optional<int64_t> number = python_int(text)) {
      value.data = *number;
    }
  } else if (type == KeyType::kNumber) {
    if (const std::optional<double> number = python_float(text)) {
      value.data = *number;
    }
  }
  return value;
}

// "<Specify path>" in a template: several words for one that is still to come.
bool opens_placeholder(const ShellField& field) {
  const std::string text = field.text();
  return text.starts_with('<') && text.find('>') == std::string::npos;
}

// Of an argument that no list names: what its value looks like.
KeyType guessed_type(const std::string& text) {
  if (python_int(text)) {
    return KeyType::kWhole;
  }
  return python_float(text) ? KeyType::kNumber : KeyType::kText;
}

class ArgumentReader {
 public:
  ArgumentReader(const std::vector<ShellField>& fields,
                 const PositionOf& position_of,
                 ForeignConfig& config)
      : fields_(fields), position_of_(position_of), config_(config) {}

  OpenArguments read(size_t begin) {
    at_ = begin;
    while (at_ < fields_.size()) {
      const ShellField& field = fields_[at_];
      if (looks_like_option(field)) {
        read_option(field);
      } else {
        read_stray(field);
        ++at_;
      }
    }
    return std::move(open_);
  }

 private:
  Position position(const ShellField& field, size_t ahead = 0) const {
    return position_of_(field.offset() + ahead);
  }

  void add_problem(const std::string& rule,
                   const std::string& key,
                   const Position& position,
                   const std::string& message,
                   const std::string& fix) {
    if (config_.problems.size() < kMaxProblems) {
      config_.problems.push_back({Severity::kError,
                                  rule,
                                  key,
                                  position,
                                  message,
                                  fix,
                                  Effect::kRefused,
                                  {}});
    }
  }

  void read_stray(const ShellField& field) {
    const std::string text = field.text();
    if (!field.is_known()) {
      open_.words.push_back(text);
      return;
    }
    if (field.is_maybe() || text.empty() || may_take_more_) {
      return;
    }
    add_problem("stray-argument",
                "",
                position(field),
                fmt::format("{} belongs to no argument, and the parser stops "
                            "at what it does not recognise",
                            in_quotes(text)),
                "remove it, or give the argument that it is the value of");
  }

  void read_option(const ShellField& field) {
    const std::string text = field.text();
    if (!text.starts_with("--") || text == "--") {
      ++at_;
      if (text != "--") {
        read_short(field);
      }
      return;
    }
    const size_t equals = text.find('=');
    const std::string key = text.substr(
        2, equals == std::string::npos ? std::string::npos : equals - 2);
    const MegatronRow* row = find_megatron_row(key);
    const MegatronForkRow* fork = find_megatron_fork_row(key);
    const std::string_view count = row != nullptr    ? row->count
                                   : fork != nullptr ? fork->count
                                                     : "guess";
    ++at_;
    ConfigEntry entry;
    entry.key = row != nullptr ? std::string(row->row.key) : key;
    entry.key_position = position(field);
    if (equals != std::string::npos) {
      read_joined(field, equals, row, count, entry);
    } else {
      read_values(field, row, count, entry);
    }
    // Nobody knows how many values an unlisted argument takes.
    may_take_more_ = count == "guess" ? equals == std::string::npos
                                      : opens_placeholder(fields_[at_ - 1]);
    add(std::move(entry));
  }

  // -x: torch's launchers have some, Megatron-LM's parser only -h.
  void read_short(const ShellField& field) {
    if (!field.is_known() || field.is_maybe()) {
      return;
    }
    add_problem("stray-argument",
                "",
                position(field),
                fmt::format("{} is no argument: all of them begin with two "
                            "dashes",
                            in_quotes(field.text())),
                "write it with two dashes, or remove it");
  }

  // --key=value
  void read_joined(const ShellField& field,
                   size_t equals,
                   const MegatronRow* row,
                   std::string_view count,
                   ConfigEntry& entry) {
    ShellField value = field;
    size_t to_drop = equals + 1;
    while (!value.pieces.empty() && value.pieces[0].text.size() <= to_drop &&
           (to_drop > 0 || value.pieces.size() > 1)) {
      to_drop -= value.pieces[0].text.size();
      value.pieces.erase(value.pieces.begin());
      if (to_drop == 0) {
        break;
      }
    }
    if (!value.pieces.empty() && to_drop > 0) {
      value.pieces[0].text.erase(0, to_drop);
      value.pieces[0].offset += to_drop;
    }
    if (row != nullptr && count.empty()) {
      add_problem("argument-values",
                  entry.key,
                  entry.key_position,
                  "it is a switch, and the parser refuses a value for it",
                  fmt::format("write --{} alone", entry.key));
      entry.value.data = true;
      entry.value.position = entry.key_position;
      return;
    }
    const Position place =
        value.pieces.empty() ? entry.key_position : position(value);
    note_default(entry.key, value);
    const bool is_list = row != nullptr && row->row.type == KeyType::kList;
    const KeyType type = row != nullptr ? (is_list ? row->item : row->row.type)
                                        : guessed_type(value.text());
    entry.value = value_of(value, type, place);
    if (is_list) {
      entry.value = {ConfigArray{entry.value}, place};
    }
  }

  // --key value…
  void read_values(const ShellField& field,
                   const MegatronRow* row,
                   std::string_view count,
                   ConfigEntry& entry) {
    if (count.empty()) {
      entry.value.position = entry.key_position;
      if (field.is_maybe()) {
        entry.value.data = ForeignValue{"set under a condition"};
      } else {
        entry.value.data = true;
      }
      if (row == nullptr) {
        return;
      }
      note_value_of_switch(row);
      return;
    }
    const std::vector<const ShellField*> values = take_values(count);
    if (row == nullptr) {
      set_unlisted(values, field, entry);
    } else if (row->row.type == KeyType::kList) {
      set_list(values, *row, field, entry);
    } else {
      set_single(values, *row, field, entry);
    }
  }

  // "--sequence-parallel true": a stray word, with a better message.
  void note_value_of_switch(const MegatronRow* row) {
    static const std::string_view kWords[] = {
        "true", "True", "TRUE", "false", "False", "FALSE", "1", "0"};
    if (at_ >= fields_.size() || !fields_[at_].is_known() ||
        fields_[at_].is_maybe()) {
      return;
    }
    const std::string text = fields_[at_].text();
    if (std::find(std::begin(kWords), std::end(kWords), text) ==
        std::end(kWords)) {
      return;
    }
    add_problem("argument-values",
                std::string(row->row.key),
                position(fields_[at_]),
                fmt::format("it is a switch, and the parser stops at {}",
                            in_quotes(text)),
                text == "false" || text == "False" || text == "0"
                    ? fmt::format("leave --{} out", row->row.key)
                    : fmt::format("write --{} alone", row->row.key));
    ++at_;
  }

  std::vector<const ShellField*> take_values(std::string_view count) {
    const std::optional<int64_t> most = whole_number(count);
    std::vector<const ShellField*> values;
    const bool is_guess = count == "guess";
    while (at_ < fields_.size() && !looks_like_option(fields_[at_])) {
      if (most && static_cast<int64_t>(values.size()) >= *most) {
        break;
      }
      if (is_guess && !values.empty()) {
        break;
      }
      values.push_back(&fields_[at_]);
      ++at_;
    }
    return values;
  }

  void set_unlisted(const std::vector<const ShellField*>& values,
                    const ShellField& field,
                    ConfigEntry& entry) {
    if (values.empty()) {
      entry.value = {true, position(field)};
      return;
    }
    if (values.size() == 1) {
      entry.value = value_of(
          *values[0], guessed_type(values[0]->text()), position(*values[0]));
      return;
    }
    entry.value = {list_of(values, KeyType::kText), position(*values[0])};
  }

  ConfigArray list_of(const std::vector<const ShellField*>& values,
                      KeyType item) const {
    ConfigArray items;
    for (const ShellField* value : values) {
      items.push_back(value_of(*value, item, position(*value)));
    }
    return items;
  }

  void set_single(const std::vector<const ShellField*>& values,
                  const MegatronRow& row,
                  const ShellField& field,
                  ConfigEntry& entry) {
    if (values.empty()) {
      missing(entry, field, "one value");
      return;
    }
    entry.value = value_of(*values[0], row.row.type, position(*values[0]));
    note_default(entry.key, *values[0]);
    if (field.is_maybe() &&
        !std::holds_alternative<ForeignValue>(entry.value.data)) {
      entry.value.data = ForeignValue{values[0]->text() + " under a condition"};
    }
  }

  void set_list(const std::vector<const ShellField*>& values,
                const MegatronRow& row,
                const ShellField& field,
                ConfigEntry& entry) {
    const std::optional<int64_t> exact = whole_number(row.count);
    const bool has_open =
        std::any_of(values.begin(), values.end(), [](const ShellField* value) {
          return !value->is_known() || value->is_maybe();
        });
    const bool is_short =
        (exact && static_cast<int64_t>(values.size()) < *exact) ||
        (row.count == "+" && values.empty());
    if (is_short && !has_open) {
      missing(entry,
              field,
              exact ? fmt::format("{} values", *exact) : "at least one value");
      return;
    }
    const Position place =
        values.empty() ? position(field) : position(*values[0]);
    if (has_open || field.is_maybe()) {
      entry.value = {ForeignValue{values.empty() ? "" : values[0]->text()},
                     place};
      return;
    }
    entry.value = {list_of(values, row.item), place};
  }

  void missing(ConfigEntry& entry,
               const ShellField& field,
               const std::string& what) {
    entry.value = {ForeignValue{"nothing"}, position(field)};
    if (field.is_maybe()) {
      return;
    }
    add_problem("argument-values",
                entry.key,
                position(field),
                fmt::format("it takes {}, and {}",
                            what,
                            at_ < fields_.size()
                                ? fmt::format("{} follows",
                                              in_quotes(fields_[at_].text()))
                                : std::string("nothing follows")),
                "give the value");
  }

  // The last one wins.
  void note_default(const std::string& key, const ShellField& value) {
    std::erase(open_.defaults, key);
    const auto is_default = [](const ShellPiece& piece) {
      return piece.is_default;
    };
    if (std::ranges::any_of(value.pieces, is_default)) {
      open_.defaults.push_back(key);
    }
  }

  // The last one wins.
  void add(ConfigEntry entry) {
    const auto [found, is_new] =
        places_.try_emplace(entry.key, config_.table.size());
    if (is_new) {
      config_.table.push_back(std::move(entry));
      return;
    }
    ConfigEntry& old = config_.table[found->second];
    const bool differs = value_text(old.value) != value_text(entry.value);
    const bool are_known =
        !std::holds_alternative<ForeignValue>(old.value.data) &&
        !std::holds_alternative<ForeignValue>(entry.value.data);
    const bool is_list = std::holds_alternative<ConfigArray>(old.value.data);
    if (differs && are_known && !is_list) {
      config_.problems.push_back(
          {Severity::kNote,
           "repeated-argument",
           entry.key,
           old.key_position,
           fmt::format("it is given twice, and the later {} replaces {}",
                       value_text(entry.value),
                       value_text(old.value)),
           "remove one",
           Effect::kIgnored,
           {}});
    }
    old = std::move(entry);
  }

  const std::vector<ShellField>& fields_;
  const PositionOf& position_of_;
  ForeignConfig& config_;
  OpenArguments open_;
  std::unordered_map<std::string, size_t> places_;
  size_t at_ = 0;
  bool may_take_more_ = false;
};

}  // namespace

OpenArguments read_arguments(const std::vector<ShellField>& fields,
                             size_t begin,
                             const PositionOf& position_of,
                             ForeignConfig& config) {
  return ArgumentReader(fields, position_of, config).read(begin);
}

}  // namespace triax
