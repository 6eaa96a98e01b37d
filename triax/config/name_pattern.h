// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace triax {

/// Whether `pattern` fits the whole of `name`: `*` stands for any characters,
/// none too, and `?` for one. This is how optimizer.freeze and the patterns of
/// [[optimizer.group]] name logical parameters. Time is at most the product of
/// the lengths.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace triax
