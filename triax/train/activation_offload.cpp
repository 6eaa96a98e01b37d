// SPDX-License-Identifier: Apache-2.0
#include "triax/train/activation_offload.h"

#include "triax/base/error.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/offload.h"

namespace triax {

std::shared_ptr<ActivationFile> make_activation_file(
    const RunConfig& config,
    const DeviceMesh& mesh,
    const RankModel& rank_model) {
  if (!offloaded_states(config).activations) {
    return nullptr;
  }
  if (!has_saved_tensor_hooks()) {
    throw Error(
        "memory.offload_states = [\"activations\"] needs hooks on what "
        "autograd saves; call install_saved_tensor_hooks() first");
  }
  const StageMemory stage = predict_memory(config)[mesh.coord().pp];
  const ActivationOffload offload = stage.activation_offload.value();
  auto file =
      ActivationFile::make({.dir = offload_folder(config),
                            .microbatch_bytes = offload.microbatch_bytes,
                            .num_microbatches = offload.num_microbatches,
                            .window_bytes = offload.window_bytes,
                            .buffer_bytes = offload.buffer_bytes,
                            .num_buffers = ActivationOffload::kNumBuffers});
  for (const ParameterSlot* slot : rank_model.slots) {
    file->stay_in_memory(slot->tensor);
  }
  return file;
}

}  // namespace triax
