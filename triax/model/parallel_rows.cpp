// SPDX-License-Identifier: Apache-2.0
#include "triax/model/parallel_rows.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

namespace triax {

void parallel_rows(int64_t num_rows,
                   int64_t grain,
                   const std::function<void(int64_t, int64_t)>& work) {
  if (num_rows <= grain) {
    work(0, num_rows);
    return;
  }
  // at::parallel_for is serial in a file compiled without OpenMP; LibTorch's
  // iterator is not, and one byte a row tells which rows a thread was given.
  at::Tensor rows = at::empty({num_rows}, at::kByte);
  const char* first = static_cast<const char*>(rows.data_ptr());
  at::TensorIterator iterator = at::TensorIterator::nullary_op(rows);
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t count, int64_t) {
        const int64_t begin = data[0] - first;
        work(begin, begin + count);
      },
      grain);
}

}  // namespace triax
