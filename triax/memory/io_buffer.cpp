// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/io_buffer.h"

#include <ATen/ops/empty.h>

#include "triax/memory/spill_file.h"

namespace triax {

at::Tensor make_io_buffer(int64_t nbytes) {
  const int64_t whole = round_up_to_io(nbytes);
  const at::Tensor memory = at::empty({whole + kIoAlignment}, at::kByte);
  const auto address = static_cast<int64_t>(
      reinterpret_cast<uintptr_t>(memory.data_ptr()) % kIoAlignment);
  return memory.narrow(0, round_up_to_io(address) - address, whole);
}

at::Tensor elements_of(const at::Tensor& buffer,
                       int64_t offset,
                       int64_t numel,
                       at::ScalarType dtype) {
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  return buffer.narrow(0, offset, numel * size).view(dtype);
}

}  // namespace triax
