// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/base/json.h"

namespace triax {

/// One line of JSON as dump_json() writes it, with every control character
/// escaped: JSON itself asks for those below U+0020 alone, and a terminal
/// obeys U+007F to U+009F too.
std::string printable_json(const Json& value);

}  // namespace triax
