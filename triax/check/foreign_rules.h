// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/check/foreign_findings.h"

namespace triax {

// The rules over RunFacts, which hold for every system. Each adds what it
// finds; what a fact or the context lacks for it goes to not_judged().

/// The batch sizes, and which data-parallel degree is meant.
void check_foreign_batch(ForeignFindings& findings);

/// The layout against the world and the model's sizes.
void check_foreign_shapes(ForeignFindings& findings);

/// What works and costs time for nothing, and what --reference shows.
void check_foreign_choices(ForeignFindings& findings);

/// Numbers that torch's own optimizers refuse, where a system takes those.
void check_foreign_optimizer(ForeignFindings& findings);
/// The same where bytes decide: the zero stage, the buckets, recompute.
void check_foreign_memory(ForeignFindings& findings);

/// tp, pp, cp and dp of the run, 1 where nobody says them.
struct Layout {
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  std::optional<int64_t> world;
  /// A degree is set and not known, and counts as 1 here.
  bool is_partly_known = false;
  /// The world is a script's own default: NNODES=1.
  bool is_world_a_setting = false;
  std::optional<int64_t> dp;  // where it is said, or the world divides
  /// "dp 4 (8 ranks / (tp 2))".
  std::string dp_text;
};

Layout layout_of(const ForeignFindings& findings);

/// Microbatches of one step, by what is said; nullopt: it is not.
std::optional<int64_t> num_microbatches(const ForeignFindings& findings);

/// Of the config, else of --model; the key tells which.
struct Sizes {
  Whole layers, hidden, ffn, heads, kv_heads, vocabulary, positions;
};

Sizes sizes_of(const ForeignFindings& findings);

/// What the model's size follows from, of the config, the other file of a
/// pair, or --model; in double, so that no product of them overflows.
struct ModelSizes {
  double layers = 0.0, hidden = 0.0, ffn = 0.0, heads = 0.0, kv_heads = 0.0;
  double head_dim = 0.0, vocabulary = 0.0;
  bool is_gated = true;
  bool is_tied = false;

  /// Matrices only: norms, biases and positions are a thousandth.
  double parameters() const;
};

/// nullopt: one of them is not known.
std::optional<ModelSizes> model_sizes(const ForeignFindings& findings);
/// The same where the vocabulary is not known, and 0 in it: what is certain
/// then is the least that the model has.
std::optional<ModelSizes> model_sizes_but_vocabulary(
    const ForeignFindings& findings);

/// "--model", and for what, where the config says the rest.
std::string_view model_argument(const ForeignFindings& findings);

/// Names the stage of a pipeline that takes longest, from each one's layers,
/// where a tenth of the stages' time or more is lost by waiting for it. The
/// last one has the head, too. `fix`: the way out where layers cannot be moved
/// from stage to stage.
void note_slowest_stage(ForeignFindings& findings,
                        const std::string& key,
                        const std::vector<int64_t>& layers,
                        const std::string& fix = "");

/// Something a rule needs, and the argument that says it.
struct Need {
  bool is_met;
  std::string_view argument;
};

/// "--model and --world": the arguments of the needs that are not met.
std::string lacking(const std::vector<Need>& needs);

/// How a system ends when a shape does not split.
Effect shape_effect(System system);

}  // namespace triax
