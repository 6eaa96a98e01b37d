// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace triax {

/// A rule that a Problem may name. Each has a page docs/rules/ID.md.
struct Rule {
  std::string_view id;
  std::string_view meaning;  // one line
};

const std::vector<Rule>& rules();

bool is_rule(std::string_view id);

}  // namespace triax
