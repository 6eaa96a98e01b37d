// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/config/load.h"
#include "triax/foreign/run_facts.h"

namespace triax {

/// A resolved run file in the shared terms.
RunFacts triax_facts(const LoadedConfig& loaded);

}  // namespace triax
