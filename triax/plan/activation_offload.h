// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triax {

/// How a rank's activations lie in a file, and what of them stays in memory
/// (memory/activation_file.h).
struct ActivationOffload {
  int64_t microbatch_bytes = 0;  // room in the file for one
  int num_microbatches = 1;      // that are live at once
  int64_t window_bytes = 0;      // newest, and read ahead; each
  int64_t buffer_bytes = 0;      // of the buffers that are written from

  static constexpr int kNumBuffers = 4;

  int64_t file_bytes() const { return num_microbatches * microbatch_bytes; }
};

/// For a stage of `num_layers` that keeps `kept_bytes` for each of
/// `num_microbatches` live ones. A file has room for a sixteenth more, and for
/// the blocks that each tensor is rounded up to; the windows are an eighth of
/// the live bytes, at most 32 MiB, a buffer is a 64th, 64 KiB to 4 MiB.
ActivationOffload plan_activation_offload(int64_t kept_bytes,
                                          int num_microbatches,
                                          int num_layers);

}  // namespace triax
