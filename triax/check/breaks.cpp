// SPDX-License-Identifier: Apache-2.0
#include "triax/check/breaks.h"

#include "triax/base/error.h"
#include "triax/config/pattern_setting.h"
#include "triax/plan/logical_parameters.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

bool groups_change_something(const RunConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  for (const LogicalParameter& parameter : logical_parameters(config.model)) {
    const PatternSetting setting = pattern_setting(optimizer, parameter.name);
    const bool is_decayed = parameter.role != ParameterRole::kNorm &&
                            parameter.role != ParameterRole::kBias;
    const double decay = is_decayed ? optimizer.weight_decay : 0.0;
    if (setting.lr.value_or(optimizer.lr) != optimizer.lr ||
        setting.weight_decay.value_or(decay) != decay) {
      return true;
    }
  }
  return false;
}

}  // namespace

const std::vector<BreakInfo>& break_table() {
  static const std::vector<BreakInfo> table = {
      {Break::kSkipNormReduction,
       "skip-norm-reduction",
       "the gradient norm is this rank's alone"},
      {Break::kAverageNorms,
       "average-norms",
       "the ranks' gradient norms are averaged, not summed as squares"},
      {Break::kSwapHeads,
       "swap-heads",
       "two query heads of the first layer change places"},
      {Break::kDropMicrobatch,
       "drop-microbatch",
       "the last microbatch adds nothing"},
      {Break::kShiftVocabulary,
       "shift-vocabulary",
       "each rank's part of the vocabulary begins one token late, in the loss"},
      {Break::kUntie,
       "untie",
       "the first and the last stage keep their own gradient of a tied weight"},
      {Break::kSameSeedOnStages,
       "same-seed-on-stages",
       "each stage draws its layers as if they were the first ones"},
      {Break::kRescaleRunningSum,
       "rescale-running-sum",
       "the accumulated gradient is divided at every microbatch"},
      {Break::kLastMicrobatchOnly,
       "last-microbatch-only",
       "only the last microbatch's gradient survives"},
      {Break::kLocalTokenCount,
       "local-token-count",
       "each replica divides by its own tokens, and the results are summed"},
      {Break::kSkipReplicaReduction,
       "skip-replica-reduction",
       "one bucket of gradients is not summed over the replicas"},
      {Break::kSkipKvSum,
       "skip-kv-sum",
       "replicas of a KV head keep their own gradients"},
      {Break::kSkipRowSum,
       "skip-row-sum",
       "one row-parallel product is not summed"},
      {Break::kSkipColumnGradient,
       "skip-column-gradient",
       "one column-parallel input's gradient is not summed"},
      {Break::kSwapLayers, "swap-layers", "two layers' weights change places"},
      {Break::kCountPadding,
       "count-padding",
       "the vocabulary's padding takes part in the loss"},
      {Break::kLocalDropout,
       "local-dropout",
       "dropout masks are drawn by the replica's own sample numbers"},
      {Break::kSkipSequenceSum,
       "skip-sequence-sum",
       "what is replicated keeps the gradient of this rank's part of the "
       "sequence"},
      {Break::kFirstSequencePart,
       "first-sequence-part",
       "each rank takes its part of the sequence for the first one"},
      {Break::kIgnoreGroups,
       "ignore-groups",
       "the optimizer's groups are not applied"},
      {Break::kSkipClipping,
       "skip-clipping",
       "the last stage does not clip its gradients"},
      {Break::kMoveFrozen,
       "move-frozen",
       "each update moves what is frozen by the learning rate"},
      {Break::kMoveUnusedRow,
       "move-unused-row",
       "each update moves an embedding row that no token of the batch uses"},
      {Break::kStaleParameterShard,
       "stale-parameter-shard",
       "ZeRO: the other shards of one bucket's parameters are not fetched"},
      {Break::kShardNotUpdated,
       "shard-not-updated",
       "ZeRO: all shards but the first are never updated"},
      {Break::kStaleUnit,
       "stale-unit",
       "ZeRO 3: one unit's parameters are gathered once and never again"},
  };
  return table;
}

std::optional<std::string> missing_for(Break kind, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const auto needs = [](bool has, const char* what) {
    return has ? std::nullopt : std::optional<std::string>(what);
  };
  switch (kind) {
    case Break::kNone:
      return std::nullopt;
    case Break::kSwapHeads:
      return needs(config.model.num_attention_heads / parallel.tp > 1,
                   "two query heads on one rank");
    case Break::kSwapLayers:
      return needs(config.model.num_hidden_layers / parallel.pp > 1,
                   "two layers on one stage");
    case Break::kSkipNormReduction:
    case Break::kAverageNorms:
      return needs(parallel.tp * parallel.pp * num_shards(parallel) > 1,
                   "tp or pp above 1, or parallel.zero with dp");
    case Break::kDropMicrobatch:
    case Break::kRescaleRunningSum:
    case Break::kLastMicrobatchOnly:
      return needs(config.num_microbatches() > 1, "more than one microbatch");
    case Break::kShiftVocabulary:
      return needs(parallel.tp > 1, "tp above 1");
    case Break::kSkipRowSum:
    case Break::kSkipColumnGradient:
      return needs(parallel.tp > 1 && !parallel.sequence_parallel,
                   "tp above 1, without sequence_parallel");
    case Break::kSkipSequenceSum:
      return needs(config.sequence_shares() > 1, "sequence_parallel with tp");
    case Break::kFirstSequencePart:
      return needs(
          config.sequence_shares() > 1 &&
              (config.model.family == ModelFamily::kGpt2 ||
               config.model.resid_pdrop > 0 || config.model.embd_pdrop > 0),
          "sequence_parallel with tp, and gpt2's positions or a "
          "dropout of the residual stream");
    case Break::kUntie:
      return needs(parallel.pp > 1 && config.model.tie_word_embeddings,
                   "pp above 1 and tie_word_embeddings");
    case Break::kSameSeedOnStages:
      return needs(parallel.pp > 1, "pp above 1");
    case Break::kLocalTokenCount:
    case Break::kSkipReplicaReduction:
      return needs(parallel.dp > 1, "dp above 1");
    case Break::kSkipKvSum:
      return needs(config.model.num_key_value_heads < parallel.tp,
                   "fewer KV heads than tp");
    case Break::kCountPadding:
      return needs(config.model.vocab_size % parallel.tp != 0,
                   "a vocabulary that tp does not divide");
    case Break::kLocalDropout:
      return needs(parallel.dp > 1 && (config.model.resid_pdrop > 0 ||
                                       config.model.embd_pdrop > 0 ||
                                       config.model.attn_pdrop > 0),
                   "dp above 1 and a dropout above 0");
    case Break::kIgnoreGroups:
      return needs(groups_change_something(config),
                   "an optimizer.group that changes a parameter's lr or "
                   "weight_decay");
    case Break::kSkipClipping:
      return needs(config.training.gradient_clipping > 0,
                   "training.gradient_clipping, below the gradient's norm");
    case Break::kMoveFrozen:
      return needs(!config.optimizer.freeze.empty(), "optimizer.freeze");
    case Break::kMoveUnusedRow:
      return std::nullopt;
    case Break::kStaleParameterShard:
      return needs(num_shards(parallel) > 1 && !splits_parameters(parallel),
                   "dp above 1 and parallel.zero 1 or 2");
    case Break::kStaleUnit:
      return needs(splits_parameters(parallel),
                   "dp above 1 and parallel.zero = 3");
    case Break::kShardNotUpdated:
      return needs(num_shards(parallel) > 1,
                   "dp above 1 and parallel.zero above 0");
  }
  return std::nullopt;
}

Break parse_break(const std::string& name, const RunConfig& config) {
  std::string names;
  for (const BreakInfo& info : break_table()) {
    if (info.name == name) {
      if (const auto missing = missing_for(info.kind, config)) {
        throw Error("--break ",
                    name,
                    " does nothing in this layout: it needs ",
                    *missing);
      }
      return info.kind;
    }
    names += (names.empty() ? "" : ", ") + info.name;
  }
  throw Error("--break ", name, " is not known; use one of ", names);
}

}  // namespace triax
