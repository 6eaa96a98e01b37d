// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "triax/foreign/parse_yaml.h"

namespace triax {
namespace {

// The patterns are those of PyYAML 6's resolver.py (YAML 1.1), matched by
// hand: std::regex recurses over the text.
class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }

  bool take(std::string_view any_of) {
    if (at_end() || any_of.find(text_[at_]) == std::string_view::npos) {
      return false;
    }
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  size_t take_all(std::string_view any_of) {
    const size_t start = at_;
    while (take(any_of)) {
    }
    return at_ - start;
  }

  // (?::[0-5]?[0-9])+
  bool take_sixtieths() {
    int count = 0;
    while (take(":")) {
      const size_t start = at_;
      const size_t digits = take_all(kDigits);
      if (digits == 0 || digits > 2 || (digits == 2 && text_[start] > '5')) {
        return false;
      }
      ++count;
    }
    return count > 0;
  }

  static constexpr std::string_view kDigits = "0123456789";
  static constexpr std::string_view kDigitsAnd = "0123456789_";

 private:
  std::string_view text_;
  size_t at_ = 0;
};

bool is_whole(std::string_view text) {
  Matcher match(text);
  match.take("-+");
  if (match.take("0")) {
    if (match.take("b")) {
      return match.take_all("01_") > 0 && match.at_end();
    }
    if (match.take("x")) {
      return match.take_all("0123456789abcdefABCDEF_") > 0 && match.at_end();
    }
    match.take_all("01234567_");
    return match.at_end();
  }
  if (!match.take("123456789")) {
    return false;
  }
  match.take_all(Matcher::kDigitsAnd);
  return match.at_end() || (match.take_sixtieths() && match.at_end());
}

bool is_exponent_and_end(Matcher& match) {
  if (match.at_end()) {
    return true;
  }
  return match.take("eE") && match.take("-+") &&
         match.take_all(Matcher::kDigits) > 0 && match.at_end();
}

bool is_special(std::string_view text) {
  Matcher match(text);
  if (match.take_word(".nan") || match.take_word(".NaN") ||
      match.take_word(".NAN")) {
    return match.at_end();
  }
  match.take("-+");
  return (match.take_word(".inf") || match.take_word(".Inf") ||
          match.take_word(".INF")) &&
         match.at_end();
}

bool is_real(std::string_view text) {
  if (is_special(text)) {
    return true;
  }
  Matcher match(text);
  if (match.take(".")) {
    return match.take(Matcher::kDigits) &&
           (match.take_all(Matcher::kDigitsAnd), is_exponent_and_end(match));
  }
  match.take("-+");
  if (!match.take(Matcher::kDigits)) {
    return false;
  }
  match.take_all(Matcher::kDigitsAnd);
  if (match.take(".")) {
    match.take_all(Matcher::kDigitsAnd);
    return is_exponent_and_end(match);
  }
  if (match.take_sixtieths() && match.take(".")) {
    match.take_all(Matcher::kDigitsAnd);
    return match.at_end();
  }
  return false;
}

// 2026-03-01, alone or with a time.
bool is_date(std::string_view text) {
  Matcher match(text);
  const auto digits = [&](size_t least, size_t most) {
    const size_t count = match.take_all(Matcher::kDigits);
    return count >= least && count <= most;
  };
  if (!digits(4, 4) || !match.take("-") || !digits(1, 2) || !match.take("-") ||
      !digits(1, 2)) {
    return false;
  }
  if (match.at_end()) {
    return text.size() == 10;
  }
  if (!match.take("Tt")) {
    if (match.take_all(" \t") == 0) {
      return false;
    }
  }
  if (!digits(1, 2) || !match.take(":") || !digits(2, 2) || !match.take(":") ||
      !digits(2, 2)) {
    return false;
  }
  if (match.take(".")) {
    match.take_all(Matcher::kDigits);
  }
  match.take_all(" \t");
  if (match.take("Z") || match.at_end()) {
    return match.at_end();
  }
  return match.take("-+") && digits(1, 2) &&
         (match.at_end() || (match.take(":") && digits(2, 2))) &&
         match.at_end();
}

std::optional<bool> as_flag(std::string_view text) {
  constexpr std::array<std::string_view, 9> kTrue = {
      "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"};
  constexpr std::array<std::string_view, 9> kFalse = {
      "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  for (size_t i = 0; i < kTrue.size(); ++i) {
    if (text == kTrue[i] || text == kFalse[i]) {
      return text == kTrue[i];
    }
  }
  return std::nullopt;
}

std::string without_underscores(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    if (byte != '_') {
      result += byte;
    }
  }
  return result;
}

double sixtieths(std::string_view text) {
  double sum = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(':'), text.size());
    double part = 0;
    std::from_chars(text.data(), text.data() + end, part);
    sum = sum * 60 + part;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sum;
}

constexpr const char* kHuge = "a whole number of more than 64 bits";

ConfigValue whole_value(std::string_view written, const Position& position) {
  std::string text = without_underscores(written);
  const bool is_negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') {
    text.erase(0, 1);
  }
  if (text.find(':') != std::string::npos) {
    const double sum = sixtieths(text);
    if (sum > 9e15) {
      return {ForeignValue{kHuge}, position};
    }
    return {static_cast<int64_t>(is_negative ? -sum : sum), position};
  }
  int base = 10;
  size_t skip = 0;
  if (text.starts_with("0b") || text.starts_with("0x")) {
    base = text[1] == 'b' ? 2 : 16;
    skip = 2;
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
    skip = 1;
  }
  const std::string digits = (is_negative ? "-" : "") + text.substr(skip);
  int64_t whole = 0;
  const auto parsed = std::from_chars(
      digits.data(), digits.data() + digits.size(), whole, base);
  if (parsed.ec != std::errc()) {
    return {ForeignValue{kHuge}, position};
  }
  return {whole, position};
}

double real_of(std::string_view written) {
  std::string text = without_underscores(written);
  const double sign = text[0] == '-' ? -1 : 1;
  if (text[0] == '-' || text[0] == '+') {
    text.erase(0, 1);
  }
  if (is_special(text)) {
    return text[1] == 'i' || text[1] == 'I'
               ? sign * std::numeric_limits<double>::infinity()
               : std::numeric_limits<double>::quiet_NaN();
  }
  if (text.find(':') != std::string::npos) {
    return sign * sixtieths(text);
  }
  double real = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), real);
  if (parsed.ec == std::errc::result_out_of_range) {
    const bool is_small = text.find("e-") != std::string::npos ||
                          text.find("E-") != std::string::npos;
    return is_small ? 0.0 : sign * std::numeric_limits<double>::infinity();
  }
  return sign * real;
}

}  // namespace

ConfigValue resolve_yaml_scalar(const std::string& text,
                                const Position& position) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" ||
      text == "NULL") {
    return {ForeignValue{"null"}, position};
  }
  if (const auto flag = as_flag(text)) {
    return {*flag, position};
  }
  if (is_real(text)) {
    return {real_of(text), position};
  }
  if (is_whole(text)) {
    return whole_value(text, position);
  }
  if (is_date(text)) {
    return {ForeignValue{"a date"}, position};
  }
  return {text, position};
}

}  // namespace triax
