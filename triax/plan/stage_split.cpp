// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/stage_split.h"

#include <algorithm>
#include <numeric>

#include "triax/base/error.h"
#include "triax/plan/logical_parameters.h"

namespace triax {

namespace {

void require_list_fits(const ModelConfig& model,
                       const ParallelConfig& parallel) {
  const std::vector<int64_t>& counts = parallel.stages;
  if (counts.size() != static_cast<size_t>(parallel.pp)) {
    throw Error("parallel.stages lists ",
                counts.size(),
                " stages and parallel.pp is ",
                parallel.pp,
                ": list one layer count per stage, or write \"auto\"");
  }
  if (*std::min_element(counts.begin(), counts.end()) < 1) {
    throw Error("parallel.stages: each stage needs at least one layer");
  }
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != model.num_hidden_layers) {
    throw Error("parallel.stages adds up to ",
                sum,
                " layers and model.num_hidden_layers is ",
                model.num_hidden_layers,
                ": make them equal, or write \"auto\"");
  }
}

/// What the embedding, or the head, weighs in layers.
double vocabulary_layers(const ModelConfig& model) {
  int64_t layer_numel = 0;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    layer_numel += parameter.layer == 0 ? parameter.numel() : 0;
  }
  return static_cast<double>(model.vocab_size * model.hidden_size) /
         layer_numel;
}

/// Gives each layer in turn to the stage that is lightest: this minimises the
/// heaviest one, and the sum of squares.
std::vector<int64_t> balance(int64_t num_layers, std::vector<double> weights) {
  std::vector<int64_t> counts(weights.size(), 1);
  for (int64_t left = num_layers - counts.size(); left > 0; --left) {
    const auto lightest = std::min_element(weights.begin(), weights.end());
    *lightest += 1.0;
    ++counts[lightest - weights.begin()];
  }
  return counts;
}

std::vector<int64_t> layer_counts(const ModelConfig& model,
                                  const ParallelConfig& parallel) {
  if (!parallel.stages.empty()) {
    require_list_fits(model, parallel);
    return parallel.stages;
  }
  std::vector<double> weights(parallel.pp, 1.0);
  if (parallel.weigh_embedding_and_head) {
    weights.front() += vocabulary_layers(model);
    weights.back() += vocabulary_layers(model);
  }
  return balance(model.num_hidden_layers, weights);
}

}  // namespace

std::vector<ModelPart> split_stages(const ModelConfig& model,
                                    const ParallelConfig& parallel) {
  TRIAX_CHECK(parallel.pp >= 1, "pp is ", parallel.pp);
  if (model.num_hidden_layers < parallel.pp) {
    throw Error("parallel.pp is ",
                parallel.pp,
                " and model.num_hidden_layers only ",
                model.num_hidden_layers,
                ": each stage needs at least one layer");
  }
  std::vector<ModelPart> parts;
  int first_layer = 0;
  for (int64_t count : layer_counts(model, parallel)) {
    const int stage = static_cast<int>(parts.size());
    parts.push_back({.first_layer = first_layer,
                     .num_layers = static_cast<int>(count),
                     .has_embedding = stage == 0,
                     .has_head = stage == parallel.pp - 1});
    first_layer += static_cast<int>(count);
  }
  return parts;
}

}  // namespace triax
