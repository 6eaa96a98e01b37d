// SPDX-License-Identifier: Apache-2.0
#include "triax/config/parse_toml.h"

#include <fmt/format.h>

#include <cctype>

#include "triax/base/byte_order_mark.h"
#include "triax/config/toml_text.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace triax {
namespace {

constexpr int kMaxDepth = 64;

bool begins_key(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) || byte == '-' ||
         byte == '_' || byte == '"' || byte == '\'';
}

// Finds what toml++ does not survive, without recursion: brackets and dotted
// keys that nest too deep, a table header without a name, on which it aborts,
// and letters beyond ASCII outside of strings and comments, which TOML 1.0
// does not have and over which its tables of blanks run off their end.
// Strings and comments are skipped as TOML defines them.
class Prescan {
 public:
  struct Finding {
    size_t offset;
    std::string message;
  };

  explicit Prescan(std::string_view text) : text_(text) {}

  std::optional<Finding> find() {
    while (at_ < text_.size()) {
      if (is_nameless_header()) {
        return Finding{at_,
                       "a table's name must begin with a letter, a digit, "
                       "'-', '_' or a quote"};
      }
      if (is_beyond_ascii()) {
        return Finding{at_,
                       "a character that is not ASCII stands outside of quotes "
                       "and comments"};
      }
      step();
      if (depth_ > kMaxDepth || num_dots_ > kMaxDepth) {
        return Finding{
            at_, fmt::format("nested more than {} levels deep", kMaxDepth)};
      }
    }
    return std::nullopt;
  }

 private:
  bool is_nameless_header() const {
    if (depth_ != 0 || text_[at_] != '[' || !is_line_start_) {
      return false;
    }
    size_t next = at_ + 1 + (text_.substr(at_, 2) == "[[");
    next = text_.find_first_not_of(" \t", next);
    return next != std::string_view::npos && text_[next] != ']' &&
           !begins_key(text_[next]);
  }

  // Not the byte order mark that a file may begin with.
  bool is_beyond_ascii() const {
    const bool is_mark = at_ < 3 && text_.starts_with(kByteOrderMark);
    return (static_cast<unsigned char>(text_[at_]) & 0x80) != 0 && !is_mark;
  }

  void step() {
    const char byte = text_[at_];
    const bool is_blank = byte == ' ' || byte == '\t' || byte == '\r' ||
                          (static_cast<unsigned char>(byte) & 0x80) != 0;
    is_line_start_ = byte == '\n' || (is_line_start_ && is_blank);
    if (byte == '"' || byte == '\'') {
      skip_string(byte);
      return;
    }
    if (byte == '#') {
      const size_t end = text_.find('\n', at_);
      at_ = end == std::string_view::npos ? text_.size() : end;
      return;
    }
    depth_ += byte == '[' || byte == '{';
    depth_ -= (byte == ']' || byte == '}') && depth_ > 0;
    if (byte == '.') {
      ++num_dots_;
    } else if (byte == '=' || byte == ',' || byte == '\n' || byte == ']') {
      num_dots_ = 0;
    }
    ++at_;
  }

  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (is_long ? text_.substr(at_, 3) == three
                  : text_[at_] == quote || text_[at_] == '\n') {
        at_ += is_long ? 3 : 1;
        return;
      }
      at_ += text_[at_] == '\\' && quote == '"' ? 2 : 1;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  int num_dots_ = 0;
  bool is_line_start_ = true;
};

Position position_of(const toml::source_position& position,
                     const std::string& file) {
  return {
      file, static_cast<int>(position.line), static_cast<int>(position.column)};
}

Position position_at(std::string_view text,
                     size_t offset,
                     const std::string& file) {
  Position position{file, 1, 1};
  for (const char byte : text.substr(0, offset)) {
    position.column = byte == '\n' ? 1 : position.column + 1;
    position.line += byte == '\n';
  }
  return position;
}

std::string foreign_kind(const toml::node& node) {
  return node.is_date() ? "a date" : node.is_time() ? "a time" : "a date-time";
}

ConfigValue convert(const toml::node& node, const std::string& file);

ConfigTable convert_table(const toml::table& table, const std::string& file) {
  ConfigTable entries;
  for (const auto& [key, node] : table) {
    entries.push_back({std::string(key.str()),
                       position_of(key.source().begin, file),
                       convert(node, file)});
  }
  return entries;
}

ConfigValue convert(const toml::node& node, const std::string& file) {
  ConfigValue value;
  value.position = position_of(node.source().begin, file);
  if (const toml::table* table = node.as_table()) {
    value.data = convert_table(*table, file);
  } else if (const toml::array* array = node.as_array()) {
    ConfigArray items;
    for (const toml::node& item : *array) {
      items.push_back(convert(item, file));
    }
    value.data = std::move(items);
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* whole = node.as_integer()) {
    value.data = whole->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.data = real->get();
  } else if (const auto* flag = node.as_boolean()) {
    value.data = flag->get();
  } else {
    value.data = ForeignValue{foreign_kind(node)};
  }
  return value;
}

void set_position(ConfigValue& value, const Position& position) {
  value.position = position;
  if (auto* items = std::get_if<ConfigArray>(&value.data)) {
    for (ConfigValue& item : *items) {
      set_position(item, position);
    }
  } else if (auto* table = std::get_if<ConfigTable>(&value.data)) {
    for (ConfigEntry& entry : *table) {
      entry.key_position = position;
      set_position(entry.value, position);
    }
  }
}

Problem syntax_problem(const Position& position, std::string message) {
  return {Severity::kError, "syntax", "", position, std::move(message), ""};
}

}  // namespace

ParsedToml parse_toml(std::string_view text, const std::string& file) {
  if (const auto finding = Prescan(text).find()) {
    return {{},
            syntax_problem(position_at(text, finding->offset, file),
                           finding->message)};
  }
  try {
    return {convert_table(toml::parse(text, file), file), std::nullopt};
  } catch (const toml::parse_error& error) {
    return {{},
            syntax_problem(position_of(error.source().begin, file),
                           std::string(error.description()))};
  }
}

std::optional<ConfigValue> parse_override(const std::string& text) {
  const Position position{"command line", 0, 0};
  if (text.find('\n') == std::string::npos) {
    ParsedToml parsed = parse_toml("value = " + text, position.file);
    if (!parsed.problem && parsed.table.size() == 1) {
      set_position(parsed.table[0].value, position);
      return parsed.table[0].value;
    }
  }
  if (text.empty() ||
      std::string_view("[{\"'").find(text[0]) != std::string_view::npos) {
    return std::nullopt;
  }
  // As a quoted text it must be TOML: UTF-8, that is.
  if (parse_toml("value = " + toml_text(text), position.file).problem) {
    return std::nullopt;
  }
  return ConfigValue{text, position};
}

}  // namespace triax
