// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triax {

/// The label of a position that counts for nothing, as in PyTorch.
inline constexpr int64_t kIgnoredLabel = -100;

}  // namespace triax
