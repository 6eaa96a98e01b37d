// SPDX-License-Identifier: Apache-2.0
// Why a key of one system is not carried to another.
#include <fmt/format.h>

#include "triax/foreign/key_table.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate_source.h"

namespace triax {
namespace {

struct Reason {
  System from;
  std::string_view prefix;
  std::string_view why;
};

constexpr std::string_view kLogging = "it logs, saves or measures the run";
constexpr std::string_view kData = "data and tokenizer are not translated";
constexpr std::string_view kInside = "it is how {} works inside";
constexpr std::string_view kExperts = "mixtures of experts are not translated";

constexpr std::string_view kOneFolder =
    "nothing lies there, or another folder than what is carried";

// The first that fits.
constexpr Reason kReasons[] = {
    {System::kDeepSpeed,
     "zero_optimization.offload_optimizer.nvme_path",
     kOneFolder},
    {System::kDeepSpeed,
     "zero_optimization.offload_param.nvme_path",
     kOneFolder},
    {System::kDeepSpeed, "zero_optimization.", kInside},
    {System::kDeepSpeed, "activation_checkpointing.", kInside},
    {System::kDeepSpeed, "fp16.", kInside},
    {System::kDeepSpeed, "bf16.", kInside},
    {System::kDeepSpeed, "aio.", kInside},
    {System::kDeepSpeed, "compile.", kInside},
    {System::kDeepSpeed, "expert_parallel.", kExperts},
    {System::kDeepSpeed, "data_efficiency.", kData},
    {System::kDeepSpeed, "checkpoint.", kLogging},
    {System::kDeepSpeed, "wandb.", kLogging},
    {System::kDeepSpeed, "tensorboard.", kLogging},
    {System::kDeepSpeed, "csv_monitor.", kLogging},
    {System::kDeepSpeed, "comet.", kLogging},
    {System::kDeepSpeed, "comms_logger.", kLogging},
    {System::kDeepSpeed, "flops_profiler.", kLogging},
    {System::kDeepSpeed, "autotuning.", kLogging},
    {System::kDeepSpeed, "steps_per_print", kLogging},
    {System::kDeepSpeed, "wall_clock_breakdown", kLogging},
    {System::kMegatron, "data-", kData},
    {System::kMegatron, "train-data-path", kData},
    {System::kMegatron, "valid-data-path", kData},
    {System::kMegatron, "test-data-path", kData},
    {System::kMegatron, "split", kData},
    {System::kMegatron, "mock-data", kData},
    {System::kMegatron, "tokenizer-", kData},
    {System::kMegatron, "vocab-", kData},
    {System::kMegatron, "merge-file", kData},
    {System::kMegatron, "num-workers", kData},
    {System::kMegatron, "moe-", kExperts},
    {System::kMegatron, "log-", kLogging},
    {System::kMegatron, "save", kLogging},
    {System::kMegatron, "load", kLogging},
    {System::kMegatron, "ckpt-", kLogging},
    {System::kMegatron, "eval-", kLogging},
    {System::kMegatron, "tensorboard-", kLogging},
    {System::kMegatron, "wandb-", kLogging},
    {System::kMegatron, "profile", kLogging},
    {System::kMegatron, "environment.", "the script exports it: do so too"},
    {System::kTorchTitan, "job.", kLogging},
    {System::kTorchTitan, "profiling.", kLogging},
    {System::kTorchTitan, "metrics.", kLogging},
    {System::kTorchTitan, "checkpoint.", kLogging},
    {System::kTorchTitan, "validation.", kLogging},
    {System::kTorchTitan, "training.dataset", kData},
    {System::kTorchTitan, "training.dataloader", kData},
    {System::kTorchTitan, "model.hf_assets_path", kData},
    {System::kTorchTitan, "model.tokenizer_path", kData},
    {System::kTorchTitan, "compile.", kInside},
    {System::kTorchTitan, "comm.", kInside},
    {System::kTorchTitan, "quantize.", kInside},
    {System::kNanotron, "data_stages.", kData},
    {System::kNanotron, "data.", kData},
    {System::kNanotron, "tokenizer.", kData},
    {System::kNanotron, "checkpoints.", kLogging},
    {System::kNanotron, "logging.", kLogging},
    {System::kNanotron, "metrics_logging.", kLogging},
    {System::kNanotron, "general.", kLogging},
    {System::kNanotron, "lighteval.", kLogging},
    {System::kNanotron, "profiler.", kLogging},
    {System::kNanotron, "s3_upload.", kLogging},
    {System::kNanotron, "tokens.", kLogging},
    {System::kNanotron, "model.model_config.moe_config.", kExperts},
    {System::kTriax, "data.", kData},
    {System::kTriax, "run.", kLogging},
    {System::kTriax, "comm.", kInside},
};

std::string_view title_of(System system) {
  const SystemEntry* entry = find_system(system);
  return entry == nullptr ? "triax" : entry->title;
}

}  // namespace

std::string why_not_carried(const SourceKey& key, System from, System to) {
  if (key.is_open && from == System::kDeepSpeed) {
    return "transformers' Trainer fills \"auto\" in, and nobody knows with "
           "what here";
  }
  if (key.is_open) {
    return "the script does not say its value";
  }
  const SystemEntry* entry = find_system(from);
  const KeyRow* row = entry == nullptr ? nullptr : entry->keys().find(key.path);
  if (row != nullptr && row->use != KeyUse::kUsed && !row->why.empty()) {
    return fmt::format("it does nothing there: {}", row->why);
  }
  for (const Reason& reason : kReasons) {
    if (reason.from == from && key.path.starts_with(reason.prefix)) {
      return fmt::format(fmt::runtime(reason.why), title_of(from));
    }
  }
  return fmt::format("no key of {} that triax knows says the same",
                     title_of(to));
}

}  // namespace triax
