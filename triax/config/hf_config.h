// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/config/load.h"

namespace triax {

/// Reads the Hugging Face config.json that `model.hf` names (the file, or the
/// folder that holds it) into the model section of `loaded`.
///
/// llama and gpt2, with transformers' defaults for what the file leaves out,
/// GPT-2's names (n_embd, n_layer, …) and both generations of RoPE keys
/// (rope_theta and rope_scaling; rope_parameters). Everything that would make
/// the model compute something else than ours is a problem at `model.hf`: other
/// architectures, rope types, activations, biases, windows, experts. Keys that
/// have no effect on the model are passed over; unknown ones are a note.
/// `loaded.derived` names the file for every key that it sets. Each problem is
/// listed; nothing is thrown.
void apply_hf_config(LoadedConfig& loaded);

}  // namespace triax
