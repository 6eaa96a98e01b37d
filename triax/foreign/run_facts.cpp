// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/run_facts.h"

#include <cmath>

namespace triax {
namespace {

// Every whole number up to here is a double.
constexpr double kMaxExact = 9007199254740992.0;

template <class T, class Read>
Fact<T> fact_at(const ForeignConfig& config,
                const std::string& path,
                const Read& read) {
  const ConfigValue* value = find_value(config.table, path);
  std::optional<T> result;
  if (value != nullptr) {
    result = read(*value);
  }
  if (!result) {
    return {};
  }
  return {std::move(result), path, value->position, false};
}

std::optional<double> real_of(const ConfigValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value.data)) {
    return *real;
  }
  return std::nullopt;
}

std::optional<int64_t> whole_of(const ConfigValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return *whole;
  }
  const auto* real = std::get_if<double>(&value.data);
  if (real != nullptr && std::floor(*real) == *real &&
      std::abs(*real) <= kMaxExact) {
    return static_cast<int64_t>(*real);
  }
  return std::nullopt;
}

template <class T>
std::optional<T> exactly(const ConfigValue& value) {
  const auto* held = std::get_if<T>(&value.data);
  return held == nullptr ? std::nullopt : std::optional<T>(*held);
}

}  // namespace

Whole whole_at(const ForeignConfig& config, const std::string& path) {
  return fact_at<int64_t>(config, path, whole_of);
}

Real real_at(const ForeignConfig& config, const std::string& path) {
  return fact_at<double>(config, path, real_of);
}

Flag flag_at(const ForeignConfig& config, const std::string& path) {
  return fact_at<bool>(config, path, exactly<bool>);
}

Word word_at(const ForeignConfig& config, const std::string& path) {
  return fact_at<std::string>(config, path, exactly<std::string>);
}

Word word_fact(const Word& source, std::string value) {
  return {std::move(value), source.key, source.position, source.is_default};
}

}  // namespace triax
