// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triax/config/problem.h"

namespace triax {

/// One SARIF 2.1.0 log of one run: the rules that spoke, and a result for
/// each problem; columns count Unicode code points.
std::string to_sarif(const std::vector<Problem>& problems,
                     const std::string& version);

/// GitHub's workflow commands, one line for each problem, escaped as its
/// runner reads them.
std::string to_github(const std::vector<Problem>& problems);

}  // namespace triax
