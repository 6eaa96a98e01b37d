// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triax {

/// Enters what MKL allocates for its products (it keeps some MB a thread, and
/// never frees them) into this_rank_memory(), as temporary, by the pointers
/// that MKL has for this. The limit does not refuse it: MKL's code can hold no
/// exception. Call before MKL's first product. False where LibTorch was built
/// without MKL.
bool count_mkl_memory();

}  // namespace triax
