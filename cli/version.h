// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace triax {

/// For --version: triax, its compiler, and the program that runs the ranks.
std::string version_text();

}  // namespace triax
