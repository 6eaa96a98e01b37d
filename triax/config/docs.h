// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace triax {

/// docs/config.md, from the table of fields.
std::string config_page();

/// The keys of a run file with type, default and meaning, for --help.
std::string keys_help();

/// docs/rules/README.md: the list of rules.
std::string rules_page();

}  // namespace triax
