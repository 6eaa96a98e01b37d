// SPDX-License-Identifier: Apache-2.0
// Stages that are not equal, and the one that all others wait for.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr double kLeastLoss = 0.1;
constexpr size_t kMostListed = 16;

// The head's product in products of a layer, by their parameters; 0: a size is
// not known.
double head_in_layers(const ForeignFindings& findings) {
  const std::optional<ModelSizes> sizes = model_sizes(findings);
  if (!sizes) {
    return 0.0;
  }
  const double head = sizes->vocabulary * sizes->hidden;
  const double ends = head * (sizes->is_tied ? 1.0 : 2.0);
  const double layer = (sizes->parameters() - ends) / sizes->layers;
  return layer > 0.0 ? head / layer : 0.0;
}

}  // namespace

void note_slowest_stage(ForeignFindings& findings,
                        const std::string& key,
                        const std::vector<int64_t>& layers,
                        const std::string& fix) {
  if (layers.size() < 2 || std::ranges::min(layers) < 0) {
    return;
  }
  std::vector<double> costs(layers.begin(), layers.end());
  const double head = head_in_layers(findings);
  costs.back() += head;
  const auto slowest = std::max_element(costs.begin(), costs.end());
  const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) /
                      static_cast<double>(costs.size());
  const double loss = 1.0 - mean / *slowest;
  if (!(loss >= kLeastLoss)) {
    return;
  }
  const auto index = static_cast<size_t>(slowest - costs.begin());
  const bool has_head = index + 1 == costs.size() && head > 0.0;
  const std::string all =
      layers.size() <= kMostListed
          ? fmt::format(" (the stages have {})", fmt::join(layers, ", "))
          : std::string();
  findings.note(
      "stages-fit",
      key,
      fmt::format("stage {} of {} is the slowest, with {} layers{}{}: every "
                  "step waits for it, and {:.0f} % of the stages' time is lost",
                  index + 1,
                  layers.size(),
                  layers[index],
                  has_head
                      ? fmt::format(" and the head, {:.1f} layers' worth", head)
                      : "",
                  all,
                  100.0 * loss),
      !fix.empty() ? fix
                   : fmt::format("give it nearer to {:.0f} layers",
                                 std::max(1.0, mean - (has_head ? head : 0.0))),
      Effect::kSlow);
}

}  // namespace triax
