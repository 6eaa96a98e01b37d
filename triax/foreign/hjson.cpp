// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/hjson.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <unordered_set>

#include "triax/base/byte_order_mark.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

constexpr int kMaxDepth = 64;
// Python refuses to read a longer whole number.
constexpr size_t kMaxDigits = 4300;
constexpr char kEnd = '\0';  // of the text, which holds no NUL

// What stopped the parser.
struct Failure {
  size_t offset;
  std::string message;
};

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

bool is_punctuator(char byte) {
  return std::string_view("{}[],:").find(byte) != std::string_view::npos;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && (is_space(text.back()) || text.back() == '\f' ||
                           text.back() == '\v')) {
    text.remove_suffix(1);
  }
  return text;
}

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    text += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// hjson's own functions, one for one: getNext is skip_to_next, scantfnns is
// bare_value, mlscanstring is long_text.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file)
      : text_(text), lines_(text, file) {}

  ConfigValue parse() {
    if (text_.starts_with(kByteOrderMark)) {
      at_ = kByteOrderMark.size();
    }
    const bool has_bom = at_ > 0;
    skip_to_next();
    ConfigValue root;
    if (at_ == text_.size() && !has_bom) {
      root.position = place(at_);
      root.data = ConfigTable{};
      return root;
    }
    root = peek() == '{' || peek() == '[' ? value(0) : bare_root();
    skip_to_next();
    if (at_ < text_.size()) {
      fail(at_, "nothing may follow the value that the file holds");
    }
    return root;
  }

  Position place(size_t offset) { return lines_.at(offset); }

  // The last text without quotes that took commas or brackets along.
  std::optional<size_t> ran_on() const { return ran_on_; }

 private:
  [[noreturn]] void fail(size_t offset, std::string message) {
    throw Failure{offset, std::move(message)};
  }

  // What is no HjsonDecodeError in Python is not tried again as one value.
  [[noreturn]] void fail_for_good(size_t offset, std::string message) {
    is_final_ = true;
    fail(offset, std::move(message));
  }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd;
  }

  void skip_to_next() {
    while (true) {
      while (is_space(peek())) {
        ++at_;
      }
      if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        while (at_ < text_.size() && peek() != '\n' && peek() != '\r') {
          ++at_;
        }
      } else if (peek() == '/' && peek(1) == '*') {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) {
          fail_for_good(at_, "a comment that /* begins never ends");
        }
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  // A root without braces, else the one value that the file is.
  ConfigValue bare_root() {
    const size_t begin = at_;
    try {
      ConfigValue root;
      root.position = place(begin);
      root.data = table(0, false);
      return root;
    } catch (const Failure& failure) {
      if (is_final_) {
        throw;
      }
      at_ = begin;
      return value_or(failure);
    }
  }

  ConfigValue value_or(const Failure& failure) {
    try {
      return value(0);
    } catch (const Failure&) {
      throw failure;
    }
  }

  ConfigValue value(int depth) {
    if (depth > kMaxDepth) {
      fail(at_, fmt::format("nested more than {} levels deep", kMaxDepth));
    }
    ConfigValue result;
    result.position = place(at_);
    const char first = peek();
    if (first == kEnd) {
      fail(at_, "a value should stand here, and the file ends");
    } else if (first == '\'' && peek(1) == '\'' && peek(2) == '\'') {
      result.data = long_text();
    } else if (first == '"' || first == '\'') {
      result.data = quoted();
    } else if (first == '{') {
      ++at_;
      result.data = table(depth, true);
    } else if (first == '[') {
      ++at_;
      result.data = array(depth);
    } else {
      bare_value(result);
    }
    return result;
  }

  ConfigTable table(int depth, bool has_braces) {
    ConfigTable entries;
    std::unordered_set<std::string> names;
    skip_to_next();
    if (has_braces && peek() == '}') {
      ++at_;
      return entries;
    }
    while (true) {
      ConfigEntry entry = key_and_value(depth);
      if (!names.insert(entry.key).second) {
        fail_for_good(key_offset_,
                      "the key " + in_quotes(entry.key) +
                          " stands twice in this table, and DeepSpeed refuses "
                          "that");
      }
      entries.push_back(std::move(entry));
      skip_to_next();
      if (peek() == ',') {
        ++at_;
        skip_to_next();
      }
      if (has_braces && peek() == '}') {
        ++at_;
        return entries;
      }
      if (!has_braces && at_ == text_.size()) {
        return entries;
      }
    }
  }

  ConfigEntry key_and_value(int depth) {
    ConfigEntry entry;
    const size_t begin = at_;
    entry.key_position = place(begin);
    entry.key = key();
    skip_to_next();
    if (peek() != ':') {
      fail(at_, "a ':' should follow the key " + in_quotes(entry.key));
    }
    ++at_;
    skip_to_next();
    entry.value = value(depth + 1);
    key_offset_ = begin;
    return entry;
  }

  ConfigArray array(int depth) {
    ConfigArray items;
    skip_to_next();
    if (peek() == ']') {
      ++at_;
      return items;
    }
    while (true) {
      if (at_ == text_.size()) {
        fail(at_, "a list is not closed by ']'");
      }
      items.push_back(value(depth + 1));
      skip_to_next();
      if (peek() == ',') {
        ++at_;
        skip_to_next();
      }
      if (peek() == ']') {
        ++at_;
        return items;
      }
    }
  }

  std::string key() {
    if (peek() == '"' || peek() == '\'') {
      return quoted();
    }
    const size_t begin = at_;
    size_t end = std::string_view::npos;
    for (;; ++at_) {
      const char byte = peek();
      if (at_ == text_.size()) {
        fail(begin,
             begin == at_ ? "a key or '}' should stand here, and the "
                            "file ends"
                          : "a key without a ':'");
      }
      if (byte == ':') {
        break;
      }
      if (is_space(byte)) {
        end = end == std::string_view::npos ? at_ : end;
      } else if (std::string_view("{}[],").find(byte) !=
                 std::string_view::npos) {
        fail(at_, fmt::format("'{}' where a key should stand", byte));
      } else if (end != std::string_view::npos) {
        fail(end, "a blank in a key without quotes");
      }
    }
    if (begin == at_) {
      fail(at_, "a ':' without a key before it");
    }
    return std::string(text_.substr(begin, std::min(end, at_) - begin));
  }

  std::string quoted() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    std::string result;
    while (true) {
      if (at_ == text_.size()) {
        fail(begin, "a text in quotes never ends");
      }
      const char byte = text_[at_];
      if (byte == quote) {
        ++at_;
        return result;
      }
      if (static_cast<unsigned char>(byte) < 0x20) {
        fail(at_,
             fmt::format("a text in quotes holds the control character "
                         "\\x{:02x}",
                         static_cast<unsigned char>(byte)));
      }
      ++at_;
      if (byte == '\\') {
        escape(result);
      } else {
        result += byte;
      }
    }
  }

  void escape(std::string& result) {
    static constexpr std::string_view kFrom = "\"'\\/bfnrt";
    static constexpr std::string_view kTo = "\"'\\/\b\f\n\r\t";
    if (peek() == 'u') {
      append_utf8(result, unicode_escape());
      return;
    }
    const size_t found = kFrom.find(peek());
    if (at_ == text_.size() || found == std::string_view::npos) {
      fail(at_ - 1, "no escape is written like that");
    }
    result += kTo[found];
    ++at_;
  }

  std::optional<uint32_t> four_digits(size_t offset) const {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(offset, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() ||
        end != digits.data() + 4) {
      return std::nullopt;
    }
    return code;
  }

  // At the 'u'. A pair of surrogates is one character; a lone one cannot be
  // written in UTF-8 and becomes U+FFFD.
  uint32_t unicode_escape() {
    const std::optional<uint32_t> code =
        at_ + 1 <= text_.size() ? four_digits(at_ + 1) : std::nullopt;
    if (!code) {
      fail(at_ - 1, "\\u needs four hexadecimal digits");
    }
    at_ += 5;
    const bool is_high = (*code & 0xfc00) == 0xd800;
    if (is_high && peek() == '\\' && peek(1) == 'u') {
      const std::optional<uint32_t> low = four_digits(at_ + 2);
      if (low && (*low & 0xfc00) == 0xdc00) {
        at_ += 6;
        return 0x10000 + (((*code - 0xd800) << 10) | (*low - 0xdc00));
      }
    }
    return (*code & 0xf800) == 0xd800 ? 0xfffd : *code;
  }

  void skip_indent(size_t most) {
    while (most > 0 && (peek() == ' ' || peek() == '\t' || peek() == '\r')) {
      ++at_;
      --most;
    }
  }

  // The columns before the ''': so many blanks are taken off each line. On a
  // first line hjson counts on from the end of the text.
  size_t indent_here() {
    const size_t before =
        at_ == 0 ? std::string_view::npos : text_.rfind('\n', at_ - 1);
    if (before != std::string_view::npos) {
      return at_ - before - 1;
    }
    const size_t last = text_.rfind('\n');
    if (last == std::string_view::npos) {
      fail_for_good(at_, "''' needs a file of more than one line");
    }
    return at_ + text_.size() - last - 1;
  }

  std::string long_text() {
    const size_t begin = at_;
    const size_t indent = indent_here();
    at_ += 3;
    skip_indent(std::string_view::npos);
    if (peek() == '\n') {
      ++at_;
      skip_indent(indent);
    }
    const size_t end = text_.find("'''", at_);
    if (end == std::string_view::npos) {
      fail(begin, "a text that ''' begins never ends");
    }
    std::string result;
    while (at_ < end) {
      const char byte = text_[at_++];
      if (byte != '\r') {
        result += byte;
      }
      if (byte == '\n') {
        skip_indent(indent);
      }
    }
    at_ += 3;
    if (result.ends_with('\n')) {
      result.pop_back();
    }
    return result;
  }

  bool ends_bare(size_t offset) const {
    if (offset >= text_.size()) {
      return true;
    }
    const char byte = text_[offset];
    const char next = offset + 1 < text_.size() ? text_[offset + 1] : kEnd;
    return byte == '\r' || byte == '\n' || byte == ',' || byte == '}' ||
           byte == ']' || byte == '#' ||
           (byte == '/' && (next == '/' || next == '*'));
  }

  // true, false, null, a number, or else the rest of the line.
  void bare_value(ConfigValue& result) {
    if (is_punctuator(peek())) {
      fail(at_, fmt::format("'{}' where a value should stand", peek()));
    }
    const size_t begin = at_;
    size_t end = begin;
    while (!ends_bare(end)) {
      ++end;
    }
    const std::string_view word = stripped(text_.substr(begin, end - begin));
    if (word == "null") {
      result.data = ForeignValue{"null"};
    } else if (word == "true" || word == "false") {
      result.data = word == "true";
    } else if (!read_number(word, begin, result)) {
      while (end < text_.size() && text_[end] != '\n' && text_[end] != '\r') {
        ++end;
      }
      std::string text(stripped(text_.substr(begin, end - begin)));
      if (text.find_first_of(",]}") != std::string::npos) {
        ran_on_ = begin;
      }
      result.data = std::move(text);
    }
    at_ = end;
  }

  // -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
  bool read_number(std::string_view word, size_t begin, ConfigValue& result) {
    size_t at = word.starts_with('-') ? 1 : 0;
    const auto digits = [&] {
      const size_t first = at;
      while (at < word.size() && is_digit(word[at])) {
        ++at;
      }
      return at - first;
    };
    const size_t first = at;
    const size_t whole = digits();
    if (whole == 0 || (whole > 1 && word[first] == '0')) {
      return false;
    }
    const size_t whole_end = at;
    if (at < word.size() && word[at] == '.') {
      ++at;
      if (digits() == 0) {
        return false;
      }
    }
    if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
      ++at;
      at += at < word.size() && (word[at] == '-' || word[at] == '+');
      if (digits() == 0) {
        return false;
      }
    }
    if (at != word.size()) {
      return false;
    }
    if (whole > kMaxDigits) {
      fail(begin, fmt::format("a number of {} digits", whole));
    }
    set_number(word, whole_end == at, begin, result);
    return true;
  }

  void set_number(std::string_view word,
                  bool is_whole,
                  size_t begin,
                  ConfigValue& result) {
    int64_t whole = 0;
    const char* const end = word.data() + word.size();
    if (is_whole &&
        std::from_chars(word.data(), end, whole).ec == std::errc()) {
      result.data = whole;
      return;
    }
    double real = 0.0;
    const auto error = std::from_chars(word.data(), end, real).ec;
    if (error != std::errc() && word.find("e-") == std::string_view::npos &&
        word.find("E-") == std::string_view::npos && !word.starts_with("0.") &&
        !word.starts_with("-0.")) {
      fail_for_good(begin, "no double holds the number " + in_quotes(word));
    }
    if (!is_whole && std::floor(real) == real && std::abs(real) < 1e10) {
      result.data = static_cast<int64_t>(real);
    } else {
      result.data = real;
    }
  }

  std::string_view text_;
  LineIndex lines_;
  size_t at_ = 0;
  size_t key_offset_ = 0;
  std::optional<size_t> ran_on_;
  bool is_final_ = false;
};

std::optional<Failure> unreadable_byte(std::string_view text) {
  const size_t nul = text.find('\0');
  const size_t bad = find_bad_utf8(text);
  if (nul < bad) {
    return Failure{nul, "a NUL byte: this is no text"};
  }
  if (bad != std::string_view::npos) {
    return Failure{bad, "a byte that is not UTF-8"};
  }
  return std::nullopt;
}

}  // namespace

ParsedHjson parse_hjson(std::string_view text, const std::string& file) {
  ParsedHjson parsed;
  Parser parser(text, file);
  std::optional<Failure> failure = unreadable_byte(text);
  if (!failure) {
    try {
      parsed.root = parser.parse();
    } catch (const Failure& caught) {
      failure = caught;
    }
  }
  if (failure) {
    parsed.root = {ConfigTable{}, {file, 1, 1}};
    parsed.problem = {Severity::kError,
                      "syntax",
                      "",
                      parser.place(failure->offset),
                      failure->message,
                      ""};
    if (parser.ran_on()) {
      const Position text_place = parser.place(*parser.ran_on());
      parsed.problem->fix = fmt::format(
          "put the text at {}:{} in quotes: without them it runs to the end of "
          "its line",
          text_place.line,
          text_place.column);
    }
  }
  return parsed;
}

bool is_null(const ConfigValue& value) {
  const auto* foreign = std::get_if<ForeignValue>(&value.data);
  return foreign != nullptr && foreign->kind == "null";
}

}  // namespace triax
