// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triax/config/fields.h"

namespace triax {

/// Why a value was not taken: a rule of rules(), a sentence, a way out.
struct Complaint {
  std::string rule;
  std::string message;
  std::string fix;
};

/// Sets the field's member in `config` to `value`, after its type, its bounds,
/// its choices and whether it is built; on a complaint nothing is set.
std::optional<Complaint> assign(const Field& field,
                                const ConfigValue& value,
                                RunConfig& config);

}  // namespace triax
