// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/check/foreign_findings.h"

namespace triax {

// The rules over RunFacts, which hold for every system. Each adds what it
// finds; what a fact or the context lacks for it goes to not_judged().

/// The batch sizes, and which data-parallel degree is meant.
void check_foreign_batch(ForeignFindings& findings);

}  // namespace triax
