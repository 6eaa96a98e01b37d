// SPDX-License-Identifier: Apache-2.0
#include "triax/config/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/base/error.h"
#include "triax/base/units.h"
#include "triax/config/nearest.h"
#include "triax/config/problem.h"
#include "triax/config/toml_text.h"

namespace triax {
namespace {

using Result = std::optional<Complaint>;

Complaint wrong_type(const Field& field, const ConfigValue& value) {
  return {"wrong-type",
          fmt::format(
              "{} stands where {} belongs", kind_of(value), type_text(field)),
          ""};
}

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? fmt::format("{:.0f}", value)
             : fmt::format("{}", value);
}

std::string fix_of(const Bounds& bounds) {
  const bool has_min = std::isfinite(bounds.min);
  const bool has_max = std::isfinite(bounds.max);
  const std::string min = (bounds.is_min_excluded ? "above " : "at least ") +
                          number_text(bounds.min);
  const std::string max = (bounds.is_max_excluded ? "below " : "at most ") +
                          number_text(bounds.max);
  return !has_min && !has_max ? "use a finite number"
         : !has_max           ? "use a finite number, " + min
         : !has_min           ? "use a finite number, " + max
                              : "use a number " + min + " and " + max;
}

Result check_bounds(const Bounds& bounds, double value) {
  const bool is_above =
      bounds.is_min_excluded ? value > bounds.min : value >= bounds.min;
  const bool is_below =
      bounds.is_max_excluded ? value < bounds.max : value <= bounds.max;
  if (is_above && is_below && std::isfinite(value)) {
    return std::nullopt;
  }
  if (!std::isfinite(value)) {
    return Complaint{"out-of-range",
                     number_text(value) + " is not a finite number",
                     fix_of(bounds)};
  }
  std::string rule =
      !is_above ? fmt::format("is not {} {}",
                              bounds.is_min_excluded ? "above" : "at least",
                              number_text(bounds.min))
                : fmt::format("is not {} {}",
                              bounds.is_max_excluded ? "below" : "at most",
                              number_text(bounds.max));
  return Complaint{
      "out-of-range", number_text(value) + " " + rule, fix_of(bounds)};
}

// Sets the members, one case for each kind.
class Assigner {
 public:
  Assigner(const Field& field, const ConfigValue& value, RunConfig& config)
      : field_(field), value_(value), config_(config) {}

  Result operator()(std::monostate) {
    const bool is_later = field_.refused_by == "not-built";
    return Complaint{std::string(field_.refused_by),
                     is_later ? fmt::format("not built yet ({})", field_.help)
                              : std::string(field_.help),
                     "leave it out"};
  }

  Result operator()(MemberOf<bool> member) {
    const auto* flag = std::get_if<bool>(&value_.data);
    if (flag == nullptr) {
      return wrong_type(field_, value_);
    }
    *member(config_) = *flag;
    return std::nullopt;
  }

  Result operator()(MemberOf<int> member) {
    int64_t number = 0;
    Result wrong = read_whole(value_, number);
    if (!wrong && (number < std::numeric_limits<int>::min() ||
                   number > std::numeric_limits<int>::max())) {
      wrong = Complaint{"out-of-range",
                        fmt::format("{} is too large", number),
                        fix_of(field_.bounds)};
    }
    if (!wrong) {
      *member(config_) = static_cast<int>(number);
    }
    return wrong;
  }

  Result operator()(MemberOf<int64_t> member) {
    int64_t number = 0;
    Result wrong = read_whole(value_, number);
    if (!wrong) {
      *member(config_) = number;
    }
    return wrong;
  }

  Result operator()(MemberOf<double> member) {
    double number = 0.0;
    Result wrong = read_real(value_, number);
    if (!wrong) {
      *member(config_) = number;
    }
    return wrong;
  }

  Result operator()(MemberOf<std::string> member) {
    const auto* text = std::get_if<std::string>(&value_.data);
    if (text == nullptr) {
      return wrong_type(field_, value_);
    }
    if (!field_.choices.empty()) {
      if (Result wrong = check_choice(*text)) {
        return wrong;
      }
    }
    if (text->find('\0') != std::string::npos) {
      return Complaint{"wrong-type", "a text cannot hold a NUL byte", ""};
    }
    *member(config_) = *text;
    return std::nullopt;
  }

  Result operator()(const EnumMember& member) {
    const auto* text = std::get_if<std::string>(&value_.data);
    if (text == nullptr) {
      return wrong_type(field_, value_);
    }
    if (Result wrong = check_choice(*text)) {
      return wrong;
    }
    const auto found =
        std::find(field_.choices.begin(), field_.choices.end(), *text);
    member.set(config_, static_cast<int>(found - field_.choices.begin()));
    return std::nullopt;
  }

  Result operator()(const SpecialMember& special) {
    std::string wrong = special.read(value_, config_);
    if (wrong.empty()) {
      return std::nullopt;
    }
    return Complaint{"wrong-type", std::move(wrong), ""};
  }

  Result operator()(MemberOf<std::vector<int64_t>> member) {
    return read_list(member, &Assigner::read_whole);
  }
  Result operator()(MemberOf<std::vector<double>> member) {
    return read_list(member, &Assigner::read_real);
  }
  Result operator()(MemberOf<std::vector<std::string>> member) {
    return read_list(member, &Assigner::read_text);
  }

 private:
  template <class T>
  Result read_list(MemberOf<std::vector<T>> member,
                   Result (Assigner::*read)(const ConfigValue&, T&)) {
    const auto* list = std::get_if<ConfigArray>(&value_.data);
    if (list == nullptr) {
      return wrong_type(field_, value_);
    }
    std::vector<T> items;
    for (const ConfigValue& item : *list) {
      if (Result wrong = (this->*read)(item, items.emplace_back())) {
        return wrong;
      }
    }
    const size_t length = static_cast<size_t>(field_.list_length);
    if (length != 0 && items.size() != length) {
      return Complaint{
          "wrong-type",
          fmt::format("{} values, where {} belong", items.size(), length),
          ""};
    }
    *member(config_) = std::move(items);
    return std::nullopt;
  }

  Result read_whole(const ConfigValue& value, int64_t& number) {
    if (const auto* whole = std::get_if<int64_t>(&value.data)) {
      number = *whole;
    } else if (const auto* text = std::get_if<std::string>(&value.data);
               text != nullptr && field_.unit == Unit::kBytes) {
      try {
        number = parse_bytes(*text);
      } catch (const Error& error) {
        return Complaint{"wrong-type", error.what(), ""};
      }
    } else {
      return wrong_type(field_, value);
    }
    if (Result wrong =
            check_bounds(field_.bounds, static_cast<double>(number))) {
      return wrong;
    }
    if (number > field_.max_built) {
      return Complaint{"not-built",
                       fmt::format("{} is not built yet", number),
                       fmt::format("use at most {}", field_.max_built)};
    }
    return std::nullopt;
  }

  Result read_real(const ConfigValue& value, double& number) {
    if (const auto* whole = std::get_if<int64_t>(&value.data)) {
      number = static_cast<double>(*whole);
    } else if (const auto* real = std::get_if<double>(&value.data)) {
      number = *real;
    } else if (const auto* text = std::get_if<std::string>(&value.data);
               text != nullptr && field_.unit != Unit::kNone) {
      try {
        number = field_.unit == Unit::kSeconds ? parse_duration(*text)
                                               : parse_bandwidth(*text);
      } catch (const Error& error) {
        return Complaint{"wrong-type", error.what(), ""};
      }
    } else {
      return wrong_type(field_, value);
    }
    return check_bounds(field_.bounds, number);
  }

  Result read_text(const ConfigValue& value, std::string& text) {
    const auto* found = std::get_if<std::string>(&value.data);
    if (found == nullptr) {
      return wrong_type(field_, value);
    }
    if (!field_.choices.empty()) {
      if (Result wrong = check_choice(*found)) {
        return wrong;
      }
    }
    text = *found;
    return std::nullopt;
  }

  Result check_choice(const std::string& text) {
    const auto is_in = [&](const std::vector<std::string_view>& words) {
      return std::find(words.begin(), words.end(), text) != words.end();
    };
    if (is_in(field_.choices)) {
      return std::nullopt;
    }
    std::string known = fmt::format("use {}", fmt::join(field_.choices, ", "));
    if (is_in(field_.later)) {
      return Complaint{
          "not-built", in_quotes(text) + " is not built yet", known};
    }
    const std::string near = nearest(text, field_.choices);
    return Complaint{
        "unknown-value",
        in_quotes(text) + " is not known",
        near.empty() ? known : known + " (did you mean " + near + "?)"};
  }

  const Field& field_;
  const ConfigValue& value_;
  RunConfig& config_;
};

}  // namespace

std::optional<Complaint> assign(const Field& field,
                                const ConfigValue& value,
                                RunConfig& config) {
  if (!field.is_default_only) {
    return std::visit(Assigner{field, value, config}, field.member);
  }
  RunConfig trial;
  if (Result wrong = std::visit(Assigner{field, value, trial}, field.member)) {
    return wrong;
  }
  const std::string given = print_value(field, trial);
  const std::string built = print_value(field, RunConfig{});
  if (given != built) {
    return Complaint{"not-built", given + " is not built yet", "use " + built};
  }
  return std::nullopt;
}

}  // namespace triax
