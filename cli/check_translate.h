// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/check_inputs.h"

namespace triax {

/// `triax check --to`: the config for the other system on stdout; on stderr
/// what is not carried, what is to be filled in, and the errors of the config
/// itself. Returns the exit code. Throws Error for wrong use.
int translate_input(const std::vector<CheckInput>& inputs,
                    const std::vector<Problem>& problems,
                    const CheckArguments& arguments,
                    const ForeignContext& context);

/// Throws Error where --to is none of the systems, or other arguments do not
/// go with it.
void check_translation_arguments(const CheckArguments& arguments);

}  // namespace triax
