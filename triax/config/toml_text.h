// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

// Values as TOML text that reads back to the same value.

std::string toml_text(bool value);
std::string toml_text(int64_t value);
/// The shortest decimal that is this double, with a point or an exponent.
std::string toml_text(double value);
/// A basic string, with what cannot stand in one escaped.
std::string toml_text(std::string_view value);

template <class T>
std::string toml_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    text += (text.size() > 1 ? ", " : "") + toml_text(value);
  }
  return text + "]";
}

}  // namespace triax
