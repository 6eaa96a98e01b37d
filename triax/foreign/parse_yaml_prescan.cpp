// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/parse_yaml_prescan.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace triax {
namespace {

constexpr size_t kMaxDepth = 64;

// Bytes of the UTF-8 character at the front and its code; 0 bytes: none.
struct Character {
  size_t num_bytes = 0;
  uint32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {1, lead};
  }
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) {
    return {};
  }
  uint32_t code = lead & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return {};
    }
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[size] || is_surrogate || code > 0x10FFFF) {
    return {};
  }
  return {size, code};
}

// reader.py's NON_PRINTABLE.
bool is_printable(uint32_t code) {
  return code == 0x09 || code == 0x0A || code == 0x0D || code == 0x85 ||
         (code >= 0x20 && code <= 0x7E) || (code >= 0xA0 && code <= 0xD7FF) ||
         (code >= 0xE000 && code <= 0xFFFD) || code >= 0x10000;
}

// Follows brackets, quotes, block scalars and indents as far as the depth
// needs it. Where it is fooled (a quote inside a block scalar's line), the
// parser's own limit remains.
class Prescan {
 public:
  explicit Prescan(std::string_view text) : text_(text) {}

  YamlPrescan run() {
    YamlPrescan result;
    result.finding = find();
    if (open_quote_) {
      const YamlPrescanFinding place = finding_at(*open_quote_, "");
      result.open_quote_line = place.line;
      result.open_quote_column = place.column;
    }
    return result;
  }

 private:
  std::optional<YamlPrescanFinding> find() {
    if (const auto finding = find_bad_character()) {
      return finding;
    }
    while (at_ < text_.size()) {
      if (byte() == '\t' && is_token_start_) {
        return finding_at(at_, "a tab where only blanks may stand");
      }
      step();
      if (flow_depth_ > kMaxDepth || indents_.size() > kMaxDepth) {
        return finding_at(
            at_ - 1, fmt::format("nested more than {} levels deep", kMaxDepth));
      }
    }
    return std::nullopt;
  }

  YamlPrescanFinding finding_at(size_t offset, std::string message) const {
    YamlPrescanFinding finding{1, 1, std::move(message)};
    for (const char byte : text_.substr(0, offset)) {
      finding.column = byte == '\n' ? 1 : finding.column + 1;
      finding.line += byte == '\n';
    }
    return finding;
  }

  std::optional<YamlPrescanFinding> find_bad_character() const {
    size_t offset = 0;
    while (offset < text_.size()) {
      const Character character = first_character(text_.substr(offset));
      if (character.num_bytes == 0) {
        return finding_at(
            offset,
            fmt::format("the byte 0x{:02x} is no UTF-8",
                        static_cast<unsigned char>(text_[offset])));
      }
      if (!is_printable(character.code)) {
        return finding_at(offset,
                          fmt::format("the control character U+{:04X} may not "
                                      "stand in YAML",
                                      character.code));
      }
      offset += character.num_bytes;
    }
    return std::nullopt;
  }

  char byte(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
  }

  static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
  }

  int column() const { return static_cast<int>(at_ - line_start_); }

  void enter(int column) {
    while (!indents_.empty() && indents_.back() > column) {
      indents_.pop_back();
    }
    if (indents_.empty() || indents_.back() < column) {
      indents_.push_back(column);
    }
  }

  void step() {
    const char now = byte();
    if (now == '\n') {
      ++at_;
      line_start_ = at_;
      is_token_start_ = true;
      is_line_start_ = true;
    } else if (is_blank(now)) {
      ++at_;
    } else if (now == '#' && (at_ == line_start_ || is_blank(text_[at_ - 1]))) {
      skip_line();
    } else if (flow_depth_ == 0 && is_line_start_ && is_token_start_) {
      begin_block_line(now);
    } else {
      step_inside(now);
    }
  }

  // Dashes and question marks open levels of their own on one line.
  void begin_block_line(char now) {
    enter(column());
    parent_column_ = column();
    if ((now == '-' || now == '?') && is_blank(byte(1))) {
      ++at_;
      return;
    }
    is_line_start_ = false;
    step_inside(now);
  }

  void step_inside(char now) {
    const bool is_start = is_token_start_;
    is_token_start_ = false;
    if (is_start && (now == '"' || now == '\'')) {
      skip_quoted(now);
    } else if (is_start && flow_depth_ == 0 && (now == '|' || now == '>')) {
      skip_block_scalar();
    } else if (is_start && (now == '&' || now == '!')) {
      while (!is_blank(byte())) {
        ++at_;
      }
      is_token_start_ = true;
    } else if ((now == '[' || now == '{') && (is_start || flow_depth_ > 0)) {
      ++flow_depth_;
      ++at_;
      is_token_start_ = true;
    } else {
      step_plain(now);
    }
  }

  void step_plain(char now) {
    if (flow_depth_ > 0) {
      flow_depth_ -= now == ']' || now == '}';
      is_token_start_ = now == ',' || now == ':';
    } else {
      is_token_start_ =
          (now == ':' || now == '-' || now == '?') && is_blank(byte(1));
    }
    ++at_;
  }

  void skip_line() {
    const size_t end = text_.find('\n', at_);
    at_ = end == std::string_view::npos ? text_.size() : end;
  }

  void skip_quoted(char quote) {
    const size_t start = at_;
    ++at_;
    while (at_ < text_.size()) {
      const char now = text_[at_];
      if (now == '\n') {
        line_start_ = at_ + 1;
      }
      if (now == '\\' && quote == '"') {
        ++at_;
      } else if (now == quote) {
        ++at_;
        return;
      }
      ++at_;
    }
    at_ = text_.size();
    open_quote_ = start;
  }

  // Its lines are those indented deeper than the key or dash before it.
  void skip_block_scalar() {
    const int parent = parent_column_;
    skip_line();
    while (at_ < text_.size()) {
      const size_t start = at_ + 1;
      const size_t content = text_.find_first_not_of(" \t\r", start);
      if (content == std::string_view::npos) {
        at_ = text_.size();
        return;
      }
      if (text_[content] != '\n' &&
          static_cast<int>(content - start) <= parent) {
        return;
      }
      at_ = start;
      skip_line();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  size_t flow_depth_ = 0;
  std::vector<int> indents_;
  int parent_column_ = 0;
  std::optional<size_t> open_quote_;
  bool is_token_start_ = true;
  bool is_line_start_ = true;
};

}  // namespace

YamlPrescan prescan_yaml(std::string_view text) {
  return Prescan(text).run();
}

}  // namespace triax
