// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/check_inputs.h"

namespace triax {

/// Writes the safe edits of `problems` into the files and shows them on
/// stderr as a diff; each `text` then is its file's new one, read again.
///
/// A file is written in place: its mode, its owner, its links and what else
/// the system keeps of it stay. Throws Error, and leaves that file as it was,
/// where it may not be written or was changed meanwhile.
void fix_inputs(std::vector<CheckInput>& inputs,
                const std::vector<Problem>& problems,
                const ForeignContext& context);

}  // namespace triax
