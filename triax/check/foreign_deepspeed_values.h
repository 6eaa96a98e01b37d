// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/config/value.h"
#include "triax/foreign/key_table.h"

namespace triax {

/// Why DeepSpeed's config classes refuse the value, empty: they take it. Each
/// class has its own manners: pydantic's fields take "yes", 1.0 and " 5 " and
/// leave out what is "auto", fp16's checks come before, and keys that are read
/// from plain dicts are compared, lowered or divided as they stand.
std::string deepspeed_misfit(const KeyRow& row, const ConfigValue& value);

}  // namespace triax
