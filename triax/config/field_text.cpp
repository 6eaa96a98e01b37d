// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "triax/base/error.h"
#include "triax/base/units.h"
#include "triax/config/fields.h"
#include "triax/config/toml_text.h"

namespace triax {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 needs it

std::string join(const std::vector<std::string_view>& words,
                 std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string number_type(const Field& field, std::string_view kind) {
  std::string text(kind);
  const Bounds& bounds = field.bounds;
  if (std::isfinite(bounds.min)) {
    text +=
        fmt::format(" {} {}", bounds.is_min_excluded ? ">" : "≥", bounds.min);
  }
  if (std::isfinite(bounds.max)) {
    text += fmt::format(", {} {}",
                        bounds.is_max_excluded ? "<" : "≤",
                        bounds.max == std::floor(bounds.max)
                            ? fmt::format("{:.0f}", bounds.max)
                            : fmt::format("{:.12g}", bounds.max));
  }
  return text;
}

std::string plain_type(const Field& field) {
  switch (field.unit) {
    case Unit::kSeconds:
      return std::isfinite(field.bounds.max)
                 ? fmt::format("duration (\"60s\", \"2ms\"), at most {} s",
                               field.bounds.max)
                 : "duration (\"60s\", \"2ms\")";
    case Unit::kBytes:
      return std::isfinite(field.bounds.max)
                 ? fmt::format("bytes (\"25MiB\"), at most {}",
                               format_bytes(int64_t(field.bounds.max)))
                 : "bytes (\"25MiB\")";
    case Unit::kBytesPerSecond:
      return "bandwidth (\"1GB/s\")";
    case Unit::kNone:
      break;
  }
  return std::visit(
      Overloaded{
          [](std::monostate) { return std::string("not built yet"); },
          [](MemberOf<bool>) { return std::string("true or false"); },
          [&](MemberOf<int>) { return number_type(field, "whole number"); },
          [&](MemberOf<int64_t>) { return number_type(field, "whole number"); },
          [&](MemberOf<double>) { return number_type(field, "number"); },
          [](MemberOf<std::string>) { return std::string("text"); },
          [&](MemberOf<std::vector<int64_t>>) {
            return number_type(field, "whole numbers");
          },
          [&](MemberOf<std::vector<double>>) {
            return number_type(field, "numbers");
          },
          [](MemberOf<std::vector<std::string>>) {
            return std::string("list of texts");
          },
          [&](EnumMember) { return join(field.choices, " | "); },
          [](const SpecialMember& special) {
            return std::string(special.type);
          }},
      field.member);
}

std::string print_number(const Field& field, double value) {
  switch (field.unit) {
    case Unit::kSeconds:
      return fmt::format("\"{}s\"", value);
    case Unit::kBytesPerSecond:
      return fmt::format("\"{}B/s\"", value);
    default:
      return toml_text(value);
  }
}

// A derived field that holds its 0 or is empty was never given.
template <class T>
bool is_left_out(const Field& field, const T& value) {
  return !field.derived.empty() && value == T{};
}

struct Printer {
  const Field& field;
  RunConfig copy;

  std::string operator()(std::monostate) { return ""; }
  std::string operator()(MemberOf<bool> member) {
    return toml_text(*member(copy));
  }
  std::string operator()(MemberOf<int> member) {
    const int value = *member(copy);
    return is_left_out(field, value) ? "" : toml_text(int64_t{value});
  }
  std::string operator()(MemberOf<double> member) {
    const size_t num_links = copy.comm.emulate.size();
    const double value = *member(copy);
    // Asking for a link that is not emulated has just made one.
    const bool is_absent = copy.comm.emulate.size() != num_links;
    return is_absent || is_left_out(field, value) ? ""
                                                  : print_number(field, value);
  }
  std::string operator()(MemberOf<std::string> member) {
    const std::string& value = *member(copy);
    return is_left_out(field, value) ? "" : toml_text(std::string_view(value));
  }
  std::string operator()(const EnumMember& member) {
    return toml_text(field.choices.at(member.get(copy)));
  }
  std::string operator()(const SpecialMember& special) {
    return special.print(copy);
  }
  template <class T>
  std::string operator()(MemberOf<T> member) {
    const T& value = *member(copy);
    return is_left_out(field, value) ? "" : toml_text(value);
  }
};

}  // namespace

std::string type_text(const Field& field) {
  if (!field.is_read()) {
    return field.refused_by == "not-built" ? "not built yet" : "not offered";
  }
  if (field.choices.empty()) {
    return plain_type(field);
  }
  const bool is_list =
      std::holds_alternative<MemberOf<std::vector<std::string>>>(field.member);
  return (is_list ? "list of " : "") + join(field.choices, " | ");
}

std::string print_value(const Field& field, const RunConfig& config) {
  return std::visit(Printer{field, config}, field.member);
}

std::string chosen(std::string_view key, const RunConfig& config) {
  const Field* field = find_field(key);
  TRIAX_CHECK(
      field != nullptr && std::holds_alternative<EnumMember>(field->member),
      key,
      " is no enumeration");
  return std::string(
      field->choices.at(std::get<EnumMember>(field->member).get(config)));
}

std::string default_text(const Field& field) {
  if (!field.derived.empty()) {
    return std::string(field.derived);
  }
  const std::string value = print_value(field, RunConfig{});
  return value.empty() ? "off" : value;
}

}  // namespace triax
