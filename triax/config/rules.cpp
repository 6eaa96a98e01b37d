// SPDX-License-Identifier: Apache-2.0
#include "triax/config/rules.h"

#include <algorithm>

namespace triax {

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = {
      // the file
      {"unreadable", "the file cannot be opened or is too large"},
      {"syntax", "the file is no TOML, or an override no key=value"},
      {"unknown-key", "no field has this key"},
      {"wrong-type", "the value has another type than the field"},
      {"out-of-range", "the number is outside the field's bounds"},
      {"unknown-value", "the value is none of the field's choices"},
      {"not-built", "the field or the value does nothing yet"},
      {"no-experts", "mixture of experts is not offered"},
      {"no-adapters", "adapters (LoRA) are not offered"},
      {"no-batch-ramp", "batch-size ramps are not offered"},
      {"no-quantised-collectives", "quantised collectives are not offered"},
      // configs of other systems
      {"misplaced-key", "the key belongs in another section"},
      {"removed-key", "the system no longer knows the key, or never did"},
      {"deprecated-key", "the key has a new name"},
      {"ignored-key", "the system reads the key and does nothing with it"},
      {"auto-value", "somebody else must fill in \"auto\""},
      {"default-changed", "versions of the system take different defaults"},
      {"precision-conflict", "two precisions are on, or two names of one"},
      {"refused-combination", "the system refuses these values together"},
      {"offload-no-effect", "an offload setting does nothing"},
      {"pipeline-zero", "DeepSpeed's pipeline takes no zero stage above 1"},
      {"optimizer-choice", "the optimizer or its parameters do not work"},
      {"not-judged", "something was not known that a rule needs"},
      {"left-out", "more findings of one file than are shown"},
      {"byte-order-mark", "the system stops at the file's byte order mark"},
      {"pair-conflict", "two configs of one run contradict each other"},
      {"slow-choice", "it works, and something faster costs nothing"},
      {"tp-crosses-hosts", "tensor parallelism crosses the network"},
      {"lr-not-scaled", "the batch changed and the learning rate did not"},
      {"scheduler-choice", "the schedule or its parameters do not work"},
      {"duplicate-key", "a key stands twice, and one of them is dropped"},
      {"missing-key", "the system needs a key that is not there"},
      {"experts-divide", "experts do not split over their ranks"},
      {"validation-hangs", "ranks may wait for each other in validation"},
      // Megatron-LM's arguments
      {"argument-values", "an argument has too few or too many values"},
      {"stray-argument", "a word belongs to no argument"},
      {"missing-argument", "an argument is missing that the run needs"},
      {"repeated-argument", "an argument is given twice"},
      {"misspelt-variable",
       "a script reads a variable that it sets under a name near it"},
      {"lost-arguments", "a broken line continuation cuts arguments off"},
      {"several-runs", "the script starts more than one run"},
      {"virtual-stages", "the chunks of an interleaved pipeline do not fit"},
      {"experts-fit", "experts do not fit their ranks or groups"},
      {"train-length", "the run's length is given in steps and in samples"},
      {"launch-environment", "a variable of the environment is wrong"},
      // config.json
      {"hf-config", "config.json cannot be read or is not implemented"},
      {"hf-override", "a key of the run file stands over config.json"},
      {"hf-unknown-key", "config.json has a key that triax does not know"},
      // the model
      {"hidden-heads", "hidden_size is no multiple of the attention heads"},
      {"head-dim-odd", "RoPE needs an even head_dim"},
      {"gpt2-shape", "gpt2 has one KV head a head, and they fill hidden_size"},
      {"kv-heads-divide-heads", "query heads do not split over KV heads"},
      {"rope-factors", "llama3's high_freq_factor must be the larger one"},
      {"sequence-too-long", "sequences are longer than the model's positions"},
      {"vocab-too-small", "the vocabulary does not hold the ids of the data"},
      // the layout
      {"heads-divide", "attention heads do not split over tp"},
      {"kv-heads-divide", "KV heads do not fit tp"},
      {"sequence-divides", "the sequence does not split over tp"},
      {"layers-fewer-than-stages", "a stage would have no layer"},
      {"stages-fit", "the list of stages does not fit pp or the layers"},
      {"world-size", "tp * pp * dp is not the number of ranks"},
      {"zero-group-divides", "dp does not split into groups of zero_group"},
      {"zero-large-buckets", "zero 2 keeps more gradients than zero 1 would"},
      {"zero-large-units", "zero 3 holds more parameters than zero 2 would"},
      {"few-microbatches", "the pipeline is mostly bubble"},
      {"offload-needs", "a state can be offloaded only with other settings"},
      // training
      {"batch-triangle", "the batch sizes contradict each other"},
      {"warmup-steps", "warm-up and decay do not fit into the run"},
      {"lr-order", "the learning rates contradict each other"},
      {"clipping-off", "gradients are not clipped"},
      {"loss-scale-order", "the lowest loss scale is above the first one"},
      {"loss-scale-power", "a loss scale of fp16 is no power of two"},
      {"reduce-dtype-range", "gradients may leave the range of their type"},
      {"no-effect", "a key that was set does nothing in this run"},
      {"pattern-matches-nothing", "a pattern matches no parameter"},
      {"pattern-splits-fused", "a pattern covers part of a stored parameter"},
      {"nothing-to-train", "every parameter is frozen"},
      // the machine
      {"data-path", "the data cannot be read"},
      {"data-too-short", "the data hold less than one sample"},
      {"validation-missing", "validation was asked for without data"},
      {"run-dir-exists", "the run's folder exists"},
      {"offload-dir", "offloaded states find no folder"},
      {"offload-in-memory", "the folder of offloaded states is in memory"},
      {"offload-disk-full", "the disk does not hold what is offloaded"},
      {"tp-exceeds-cores", "tensor-parallel ranks share cores"},
      {"ranks-exceed-cores", "there are far more ranks than cores"},
      {"memory-exceeds-machine", "the ranks need more memory than there is"},
      {"memory-exceeds-limit", "a rank needs more than memory.limit"},
      {"deadline-too-short", "a healthy rank would outlast comm.deadline"},
  };
  return table;
}

bool is_rule(std::string_view id) {
  return std::any_of(rules().begin(), rules().end(), [id](const Rule& rule) {
    return rule.id == id;
  });
}

}  // namespace triax
