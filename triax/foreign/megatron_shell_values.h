// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/megatron_shell.h"

namespace triax {

/// What a shell variable holds: one item, or those of an array.
struct ShellValue {
  bool is_array = false;
  std::vector<ShellField> items;

  bool operator==(const ShellValue&) const = default;
};

size_t bytes_of(const ShellValue& value);

/// Something that stands for what is not known, cut after 40 bytes.
ShellPiece unknown_piece(const std::string& text, size_t offset);

/// A case's pattern against a word: * and ? and the rest as it stands.
bool matches_pattern(std::string_view pattern, std::string_view text);

/// What the variable `name` may hold after branches that gave it these values.
/// Equal values stay; arguments that only some have are "maybe"; anything else
/// is not known.
ShellValue merged_value(const std::string& name,
                        const std::vector<ShellValue>& candidates,
                        bool may_be_unset);

bool is_shell_space(char c);

/// Puts pieces together into words, splitting what is not quoted.
class ShellFieldBuilder {
 public:
  void add(ShellPiece piece) {
    if (!is_open_) {
      fields_.emplace_back();
      is_open_ = true;
    }
    std::vector<ShellPiece>& pieces = fields_.back().pieces;
    if (!pieces.empty() && pieces.back().text.empty()) {
      pieces.pop_back();  // what quotes began with
    }
    pieces.push_back(std::move(piece));
  }

  void add_split(const ShellPiece& piece) {
    if (!piece.is_known) {
      ShellPiece open = piece;
      open.is_open = true;
      add(std::move(open));
      return;
    }
    size_t at = 0;
    const std::string& text = piece.text;
    while (at < text.size()) {
      if (is_shell_space(text[at])) {
        is_open_ = false;
        ++at;
        continue;
      }
      size_t end = at;
      while (end < text.size() && !is_shell_space(text[end])) {
        ++end;
      }
      ShellPiece word = piece;
      word.text = text.substr(at, end - at);
      word.offset += at;
      add(std::move(word));
      at = end;
    }
  }

  void end_field() { is_open_ = false; }

  std::vector<ShellField> take() { return std::move(fields_); }

 private:
  std::vector<ShellField> fields_;
  bool is_open_ = false;
};

}  // namespace triax
