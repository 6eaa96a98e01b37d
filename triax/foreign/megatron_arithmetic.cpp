// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_arithmetic.h"

#include <cctype>
#include <charconv>

namespace triax {
namespace {

constexpr int kMaxDepth = 100;

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

struct Operator {
  std::string_view text;
  int level;
};

// Longer ones first.
constexpr Operator kOperators[] = {{"**", 7},
                                   {"&&", 2},
                                   {"||", 1},
                                   {"==", 3},
                                   {"!=", 3},
                                   {"<=", 4},
                                   {">=", 4},
                                   {"<", 4},
                                   {">", 4},
                                   {"+", 5},
                                   {"-", 5},
                                   {"*", 6},
                                   {"/", 6},
                                   {"%", 6}};

using Number = std::optional<int64_t>;

Number power(int64_t base, int64_t exponent) {
  if (exponent < 0 || exponent > 64) {
    return std::nullopt;
  }
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return std::nullopt;
    }
  }
  return result;
}

Number divide(std::string_view op, int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) {
    return std::nullopt;
  }
  return op == "/" ? a / b : a % b;
}

Number apply(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    return __builtin_add_overflow(a, b, &result) ? Number() : result;
  }
  if (op == "-") {
    return __builtin_sub_overflow(a, b, &result) ? Number() : result;
  }
  if (op == "*") {
    return __builtin_mul_overflow(a, b, &result) ? Number() : result;
  }
  if (op == "/" || op == "%") {
    return divide(op, a, b);
  }
  if (op == "**") {
    return power(a, b);
  }
  const bool holds = op == "=="   ? a == b
                     : op == "!=" ? a != b
                     : op == "<"  ? a < b
                     : op == ">"  ? a > b
                     : op == "<=" ? a <= b
                     : op == ">=" ? a >= b
                     : op == "&&" ? (a != 0 && b != 0)
                                  : (a != 0 || b != 0);
  return holds ? 1 : 0;
}

class Formula {
 public:
  using Variable = std::function<Number(std::string_view)>;

  Formula(std::string_view text, const Variable& variable)
      : text_(text), variable_(variable) {}

  Number value() {
    const Number result = read(0);
    skip_blanks();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() &&
           std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }

  const Operator* next_operator() {
    skip_blanks();
    for (const Operator& op : kOperators) {
      if (text_.substr(at_).starts_with(op.text)) {
        return &op;
      }
    }
    return nullptr;
  }

  Number read(int min_level) {
    if (++depth_ > kMaxDepth) {
      return std::nullopt;
    }
    Number left = read_operand();
    while (left) {
      const Operator* op = next_operator();
      if (op == nullptr || op->level < min_level) {
        break;
      }
      at_ += op->text.size();
      const Number right = read(op->level == 7 ? 7 : op->level + 1);
      left = right ? apply(op->text, *left, *right) : std::nullopt;
    }
    --depth_;
    return left;
  }

  Number read_operand() {
    skip_blanks();
    if (at_ >= text_.size() || ++depth_ > kMaxDepth) {
      return std::nullopt;
    }
    const char c = text_[at_];
    Number result;
    if (c == '(') {
      ++at_;
      result = read(0);
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != ')') {
        return std::nullopt;
      }
      ++at_;
    } else if (c == '-' || c == '+' || c == '!') {
      ++at_;
      result = read_operand();
      if (result && *result == INT64_MIN) {
        return std::nullopt;
      }
      if (result && c != '+') {
        result = c == '-' ? -*result : static_cast<int64_t>(*result == 0);
      }
    } else {
      result = read_name_or_number();
    }
    --depth_;
    return result;
  }

  Number read_name_or_number() {
    bool has_brace = false;
    if (text_[at_] == '$') {
      ++at_;
      has_brace = at_ < text_.size() && text_[at_] == '{';
      at_ += has_brace ? 1 : 0;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (has_brace) {
      if (at_ >= text_.size() || text_[at_] != '}') {
        return std::nullopt;
      }
      ++at_;
    }
    if (word.empty()) {
      return std::nullopt;
    }
    const bool is_positional = begin > 0 && text_[begin - 1] == '$';
    if (!is_positional &&
        std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      return whole_number(word);
    }
    return variable_(word);
  }

  std::string_view text_;
  const Variable& variable_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return std::nullopt;
    }
  }
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole =
      error == std::errc() && !text.empty() && end == text.data() + text.size();
  return is_whole ? std::optional<int64_t>(number) : std::nullopt;
}

std::optional<int64_t> shell_arithmetic(
    std::string_view formula,
    const std::function<std::optional<int64_t>(std::string_view)>& variable) {
  return Formula(formula, variable).value();
}

}  // namespace triax
