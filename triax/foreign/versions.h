// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triax/foreign/foreign_config.h"

namespace triax {

/// What ForeignContext::version holds for "0.14.5", "0.14" (its last release)
/// or the table's own version ("": nothing). Throws Error for what is no
/// version of the system, or one that triax has no table for, and names those
/// there are.
std::string resolve_version(System system, std::string_view version);

}  // namespace triax
