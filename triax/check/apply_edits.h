// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/config/problem.h"

namespace triax {

struct EditedText {
  std::string text;
  /// The changed lines as a unified diff without context; empty: no change.
  std::string diff;
  int num_edits = 0;
};

/// Makes the safe edits of the problems that stand in `file`. An edit whose
/// place does not say what it expects is left out; all else of the text,
/// comments too, stays as it is. Of two edits at one place the first counts; a
/// misspelt key whose digits would change is left to its owner.
EditedText apply_edits(std::string_view text,
                       const std::string& file,
                       const std::vector<Problem>& problems);

}  // namespace triax
