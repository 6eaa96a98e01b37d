// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace triax {

/// Calls work(begin, end) for parts of [0, num_rows) on LibTorch's own
/// threads. `work` must touch memory only, no tensors. Parts are at least
/// `grain` rows, so short work stays on one thread.
void parallel_rows(int64_t num_rows,
                   int64_t grain,
                   const std::function<void(int64_t, int64_t)>& work);

}  // namespace triax
