// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_values.h"

#include <algorithm>

namespace triax {
namespace {

std::string shortened(std::string text) {
  constexpr size_t kMost = 40;
  if (text.size() > kMost) {
    size_t end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
      --end;
    }
    text.resize(end);
    text += "…";
  }
  return text;
}

bool holds_arguments(const ShellValue& value) {
  return std::any_of(
      value.items.begin(), value.items.end(), [](const ShellField& field) {
        return std::any_of(field.pieces.begin(),
                           field.pieces.end(),
                           [](const ShellPiece& piece) {
                             return piece.text.find("--") != std::string::npos;
                           });
      });
}

bool texts_equal(const ShellValue& a, const ShellValue& b) {
  return a.items.size() == b.items.size() &&
         std::equal(a.items.begin(),
                    a.items.end(),
                    b.items.begin(),
                    [](const ShellField& x, const ShellField& y) {
                      return x.is_known() && y.is_known() &&
                             x.is_maybe() == y.is_maybe() &&
                             x.text() == y.text();
                    });
}

std::vector<ShellField> items_of(const std::vector<ShellPiece>& all,
                                 bool is_array) {
  std::vector<ShellField> items(1);
  for (const ShellPiece& piece : all) {
    if (is_array && piece.text == "\n" && piece.offset == 0) {
      if (!items.back().pieces.empty()) {
        items.emplace_back();
      }
    } else {
      items.back().pieces.push_back(piece);
    }
  }
  if (is_array && items.back().pieces.empty()) {
    items.pop_back();
  }
  return items;
}

// What all begin with stays; what only some have is "maybe".
ShellValue merged_arguments(const std::vector<ShellValue>& candidates,
                            bool may_be_unset) {
  ShellValue result;
  result.is_array = candidates[0].is_array;
  std::vector<std::vector<ShellPiece>> lists;
  for (const ShellValue& value : candidates) {
    lists.emplace_back();
    for (const ShellField& item : value.items) {
      for (const ShellPiece& piece : item.pieces) {
        if (!piece.text.empty()) {
          lists.back().push_back(piece);
        }
      }
      if (result.is_array) {
        lists.back().push_back({"\n", 0});  // ends an item
      }
    }
  }
  size_t same = 0;
  while (!may_be_unset && same < lists[0].size() &&
         std::all_of(lists.begin(), lists.end(), [&](const auto& list) {
           return same < list.size() && list[same] == lists[0][same];
         })) {
    ++same;
  }
  std::vector<ShellPiece> all(lists[0].begin(),
                              lists[0].begin() + static_cast<long>(same));
  for (const auto& list : lists) {
    for (size_t i = same; i < list.size(); ++i) {
      all.push_back(list[i]);
      all.back().is_maybe = true;
    }
    all.push_back({result.is_array ? "\n" : " ", 0});
  }
  result.items = items_of(all, result.is_array);
  return result;
}

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

ShellPiece unknown_piece(const std::string& text, size_t offset) {
  ShellPiece piece;
  piece.text = shortened(text);
  piece.offset = offset;
  piece.is_known = false;
  return piece;
}

size_t bytes_of(const ShellValue& value) {
  size_t bytes = 0;
  for (const ShellField& item : value.items) {
    for (const ShellPiece& piece : item.pieces) {
      bytes += piece.text.size() + 32;
    }
  }
  return bytes;
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

ShellValue merged_value(const std::string& name,
                        const std::vector<ShellValue>& candidates,
                        bool may_be_unset) {
  const bool are_equal = std::all_of(
      candidates.begin(), candidates.end(), [&](const ShellValue& value) {
        return texts_equal(value, candidates[0]);
      });
  const bool has_arguments =
      std::any_of(candidates.begin(), candidates.end(), holds_arguments) ||
      candidates[0].is_array;
  if (are_equal && !(may_be_unset && has_arguments)) {
    return candidates[0];
  }
  if (!has_arguments) {
    const size_t offset =
        candidates[0].items.empty() ? 0 : candidates[0].items[0].offset();
    return ShellValue{false, {{{unknown_piece("$" + name, offset)}}}};
  }
  return merged_arguments(candidates, may_be_unset);
}

bool is_shell_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace triax
