// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_tests.h"

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_shell_values.h"

namespace triax {
namespace {

using MaybeBool = std::optional<bool>;

MaybeBool is_empty(const ShellField& field) {
  if (field.is_known()) {
    return field.text().empty();
  }
  const bool is_unset = field.pieces.size() == 1 && field.pieces[0].is_unset;
  return is_unset ? MaybeBool(true) : std::nullopt;
}

MaybeBool compare(const ShellField& left,
                  const std::string& op,
                  const ShellField& right) {
  if (!left.is_known() || !right.is_known()) {
    return std::nullopt;
  }
  const std::string a = left.text();
  const std::string b = right.text();
  if (op == "=" || op == "==") {
    return matches_pattern(b, a);
  }
  if (op == "!=") {
    return !matches_pattern(b, a);
  }
  const std::optional<int64_t> x = whole_number(a);
  const std::optional<int64_t> y = whole_number(b);
  if (!x || !y) {
    return std::nullopt;
  }
  return op == "-eq"   ? MaybeBool(*x == *y)
         : op == "-ne" ? MaybeBool(*x != *y)
         : op == "-gt" ? MaybeBool(*x > *y)
         : op == "-ge" ? MaybeBool(*x >= *y)
         : op == "-lt" ? MaybeBool(*x < *y)
         : op == "-le" ? MaybeBool(*x <= *y)
                       : std::nullopt;
}

MaybeBool judge_one(const std::vector<ShellField>& words,
                    size_t begin,
                    size_t end) {
  bool is_negated = false;
  while (begin < end && words[begin].text() == "!") {
    is_negated = !is_negated;
    ++begin;
  }
  MaybeBool result;
  if (end - begin == 1) {
    result = is_empty(words[begin]);
    result = result ? MaybeBool(!*result) : std::nullopt;
  } else if (end - begin == 2) {
    const std::string op = words[begin].text();
    if (op == "-z" || op == "-n") {
      result = is_empty(words[begin + 1]);
      if (result && op == "-n") {
        result = !*result;
      }
    }
  } else if (end - begin == 3) {
    result = compare(words[begin], words[begin + 1].text(), words[begin + 2]);
  }
  if (result && is_negated) {
    result = !*result;
  }
  return result;
}

MaybeBool judge_and(const std::vector<ShellField>& words,
                    size_t begin,
                    size_t end) {
  bool is_unknown = false;
  size_t from = begin;
  for (size_t i = begin; i <= end; ++i) {
    if (i < end && words[i].text() != "&&" && words[i].text() != "-a") {
      continue;
    }
    const MaybeBool part = judge_one(words, from, i);
    if (!part.value_or(true)) {
      return false;
    }
    is_unknown = is_unknown || !part.has_value();
    from = i + 1;
  }
  return is_unknown ? MaybeBool() : MaybeBool(true);
}

// && binds tighter than ||. Runs of words between the operators.
MaybeBool judge_or(const std::vector<ShellField>& words,
                   size_t begin,
                   size_t end) {
  bool is_unknown = false;
  size_t from = begin;
  for (size_t i = begin; i <= end; ++i) {
    if (i < end && words[i].text() != "||" && words[i].text() != "-o") {
      continue;
    }
    const MaybeBool part = judge_and(words, from, i);
    if (part.value_or(false)) {
      return true;
    }
    is_unknown = is_unknown || !part.has_value();
    from = i + 1;
  }
  return is_unknown ? MaybeBool() : MaybeBool(false);
}

}  // namespace

std::optional<bool> judge_shell_test(const std::vector<ShellField>& words) {
  return judge_or(words, 0, words.size());
}

}  // namespace triax
