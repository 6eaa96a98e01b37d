// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triax {

/// Bytes for a SpillFile's transfers: one dim, uint8, rounded up to and
/// beginning at a multiple of kIoAlignment. From LibTorch's allocator, so that
/// the rank's account and limit see them, in the category of the scopes.
at::Tensor make_io_buffer(int64_t nbytes);

/// `numel` elements of a buffer from byte `offset` on, one dim.
at::Tensor elements_of(const at::Tensor& buffer,
                       int64_t offset,
                       int64_t numel,
                       at::ScalarType dtype);

}  // namespace triax
