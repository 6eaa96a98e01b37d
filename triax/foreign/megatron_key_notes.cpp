// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "triax/foreign/megatron.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

// What the parser takes and Megatron-LM then refuses, ignores or renames.
struct KeyNote {
  std::string_view key;
  KeyUse use = KeyUse::kUsed;
  std::string_view why = {};
  std::string_view replacement = {};
  bool is_deprecated = false;
};

constexpr KeyNote kNotes[] = {
    {"batch-size",
     KeyUse::kRefused,
     "Megatron-LM stops: the argument is no longer valid",
     "micro-batch-size"},
    {"warmup",
     KeyUse::kRefused,
     "Megatron-LM stops: the argument is no longer valid",
     "lr-warmup-fraction"},
    {"model-parallel-size",
     KeyUse::kRefused,
     "Megatron-LM stops: the argument is no longer valid",
     "tensor-model-parallel-size"},
    {"checkpoint-activations",
     KeyUse::kRefused,
     "Megatron-LM prints that it is no longer valid and exits",
     "recompute-activations, or recompute-granularity and recompute-method"},
    {"use-mcore-models", KeyUse::kIgnored, "its models are the default now"},
    {"use-flash-attn",
     KeyUse::kIgnored,
     "nothing reads it; attention is chosen by attention-backend"},
    {"onnx-safe", KeyUse::kIgnored, "nothing reads it"},
    {"use-dist-ckpt",
     KeyUse::kIgnored,
     "the format of checkpoints says it, torch_dist by default",
     "ckpt-format"},
    {"dist-ckpt-format",
     KeyUse::kIgnored,
     "the format of checkpoints says it",
     "ckpt-format"},
    {"ckpt-fully-parallel-save",
     KeyUse::kIgnored,
     "it is the default, and no-ckpt-fully-parallel-save turns it off"},
    {"rampup-batch-size",
     KeyUse::kIgnored,
     "the whole batch is used from the first step on",
     "step-batch-size-schedule"},
    {"apply-residual-connection-post-layernorm",
     KeyUse::kIgnored,
     "the models of megatron-core do not read it"},
    {"hybrid-override-pattern",
     KeyUse::kUsed,
     "",
     "hybrid-layer-pattern",
     true},
    {"mtp-hybrid-override-pattern",
     KeyUse::kUsed,
     "",
     "hybrid-layer-pattern with a / before each depth",
     true},
    {"enable-cuda-graph", KeyUse::kUsed, "", "cuda-graph-impl local", true},
    {"external-cuda-graph",
     KeyUse::kUsed,
     "",
     "cuda-graph-impl transformer_engine",
     true},
    {"cuda-graph-scope", KeyUse::kUsed, "", "cuda-graph-modules", true},
    {"no-weight-decay-cond-type",
     KeyUse::kUsed,
     "",
     "apply-wd-to-qk-layernorm",
     true},
    {"moe-enable-deepep",
     KeyUse::kUsed,
     "",
     "moe-flex-dispatcher-backend deepep",
     true},
    {"moe-deepep-num-sms",
     KeyUse::kUsed,
     "",
     "moe-flex-dispatcher-num-sms",
     true},
    {"moe-hybridep-num-sms",
     KeyUse::kUsed,
     "",
     "moe-flex-dispatcher-num-sms",
     true},
    {"moe-layer-recompute",
     KeyUse::kUsed,
     "",
     "recompute-granularity selective with recompute-modules moe",
     true},
    {"moe-router-padding-for-fp8",
     KeyUse::kUsed,
     "",
     "moe-router-padding-for-quantization",
     true},
    {"disable-msc", KeyUse::kUsed, "", "nothing: it is the default", true},
};

const KeyNote* note_of(std::string_view key) {
  const auto* found = std::find_if(
      std::begin(kNotes), std::end(kNotes), [key](const KeyNote& note) {
        return note.key == key;
      });
  return found == std::end(kNotes) ? nullptr : found;
}

// The counts that validate_args and the configs ask for, beyond their types.
double least(std::string_view key) {
  static constexpr std::string_view kPositive[] = {
      "tensor-model-parallel-size",
      "pipeline-model-parallel-size",
      "context-parallel-size",
      "expert-model-parallel-size",
      "expert-tensor-parallel-size",
      "micro-batch-size",
      "global-batch-size",
      "num-layers",
      "hidden-size",
      "num-attention-heads",
      "num-query-groups",
      "seq-length",
      "max-position-embeddings",
      "save-interval",
      "save-retain-interval",
      "num-dataset-builder-threads",
      "num-layers-per-virtual-pipeline-stage",
      "num-virtual-stages-per-pipeline-rank",
      "decoder-first-pipeline-num-layers",
      "decoder-last-pipeline-num-layers",
      "num-distributed-optimizer-instances",
      "make-vocab-size-divisible-by",
      "ddp-num-buckets",
      "log-interval"};
  const bool is_positive =
      std::find(std::begin(kPositive), std::end(kPositive), key) !=
      std::end(kPositive);
  return is_positive ? 1 : -std::numeric_limits<double>::infinity();
}

std::vector<KeyRow> make_rows() {
  std::vector<KeyRow> rows = {
      {.key = "launch", .type = KeyType::kOpenTable},
      {.key = "environment", .type = KeyType::kOpenTable}};
  for (const MegatronRow& parser_row : megatron_parser_rows()) {
    KeyRow row = parser_row.row;
    row.min = least(row.key);
    if (const KeyNote* note = note_of(row.key)) {
      row.use = note->use;
      row.why = note->why;
      row.replacement = note->replacement;
      row.is_deprecated = note->is_deprecated;
    }
    rows.push_back(row);
  }
  return rows;
}

using RowIndex = std::unordered_map<std::string_view, const MegatronRow*>;

RowIndex index_rows() {
  RowIndex index;
  for (const MegatronRow& row : megatron_parser_rows()) {
    index[row.row.key] = &row;
    for (const std::string_view alias : split_words(row.row.aliases)) {
      index[alias] = &row;
    }
  }
  return index;
}

}  // namespace

const KeyTable& megatron_keys() {
  static const std::vector<KeyRow> rows = make_rows();
  static const KeyTable table("core_v0.19.2", rows);
  return table;
}

const MegatronRow* find_megatron_row(std::string_view key) {
  static const RowIndex index = index_rows();
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace triax
