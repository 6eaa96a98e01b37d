// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace triax {

/// The value of a shell's $(( formula )); nullopt: some variable is not known,
/// it divides by zero or leaves 64 bits, or it is more than + - * / % **, ( ),
/// comparisons, && and ||.
std::optional<int64_t> shell_arithmetic(
    std::string_view formula,
    const std::function<std::optional<int64_t>(std::string_view)>& variable);

/// The whole of `text` as a whole number with an optional sign.
std::optional<int64_t> whole_number(std::string_view text);

}  // namespace triax
