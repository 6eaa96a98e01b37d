// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include <numeric>

#include "triax/base/units.h"
#include "triax/check/findings.h"

namespace triax {
namespace {

constexpr int64_t kMaxRanks = 1 << 16;

bool key_value_heads_fit(int64_t key_value_heads, int64_t tp) {
  return key_value_heads % tp == 0 || tp % key_value_heads == 0;
}

std::vector<int64_t> valid_tp(const ModelConfig& model) {
  std::vector<int64_t> degrees;
  for (const int64_t tp : divisors(model.num_attention_heads)) {
    if (key_value_heads_fit(model.num_key_value_heads, tp)) {
      degrees.push_back(tp);
    }
  }
  return degrees;
}

void check_heads(Findings& findings) {
  const ModelConfig& model = findings.config.model;
  const int64_t tp = findings.config.parallel.tp;
  const std::string fix = "use tp = " + one_of(valid_tp(model));
  if (model.num_attention_heads % tp != 0) {
    findings.error("heads-divide",
                   "parallel.tp",
                   fmt::format("{} attention heads do not split over tp {}",
                               model.num_attention_heads,
                               tp),
                   fix);
  } else if (!key_value_heads_fit(model.num_key_value_heads, tp)) {
    findings.error(
        "kv-heads-divide",
        "parallel.tp",
        fmt::format("{} key and value heads neither split over tp {} nor "
                    "does it hold each of them the same number of times{}",
                    model.num_key_value_heads,
                    tp,
                    findings.derivation("model.num_key_value_heads")),
        fix);
  }
}

void check_stage_list(Findings& findings) {
  const std::vector<int64_t>& stages = findings.config.parallel.stages;
  const int64_t pp = findings.config.parallel.pp;
  const int64_t layers = findings.config.model.num_hidden_layers;
  const std::string key = "parallel.stages";
  if (static_cast<int64_t>(stages.size()) != pp) {
    findings.error(
        "stages-fit",
        key,
        fmt::format("a list of {}, and pp is {}",
                    counted(static_cast<int64_t>(stages.size()), "stage"),
                    pp),
        "list one layer count for each stage, or write \"auto\"");
    return;
  }
  if (std::any_of(stages.begin(), stages.end(), [](int64_t count) {
        return count < 1;
      })) {
    findings.error("stages-fit",
                   key,
                   fmt::format("{}: a stage needs at least one layer",
                               fmt::join(stages, " + ")),
                   "give each stage one, or write \"auto\"");
    return;
  }
  const int64_t sum = std::accumulate(stages.begin(), stages.end(), int64_t{0});
  if (sum != layers) {
    findings.error("stages-fit",
                   key,
                   fmt::format("{} = {}, and the model has {}",
                               fmt::join(stages, " + "),
                               counted(sum, "layer"),
                               layers),
                   "make them equal, or write \"auto\"");
  }
}

void check_stages(Findings& findings) {
  const int64_t pp = findings.config.parallel.pp;
  const int64_t layers = findings.config.model.num_hidden_layers;
  if (layers < pp) {
    findings.error(
        "layers-fewer-than-stages",
        "parallel.pp",
        fmt::format("{} cannot fill {} stages", counted(layers, "layer"), pp),
        fmt::format("use a pp of at most {}", layers));
  } else if (!findings.config.parallel.stages.empty()) {
    check_stage_list(findings);
  }
}

// What could be written instead, for the one degree that is in the way.
std::string world_fix(const RunConfig& config, int64_t ranks) {
  const ParallelConfig& parallel = config.parallel;
  const std::vector<int64_t> fitting = valid_tp(config.model);
  const auto tp_of = [&](int64_t number) {
    std::vector<int64_t> degrees = divisors(number);
    std::erase_if(degrees, [&](int64_t tp) {
      return std::find(fitting.begin(), fitting.end(), tp) == fitting.end();
    });
    return one_of(degrees);
  };
  if (ranks % parallel.pp == 0) {
    return "use tp = " + tp_of(ranks / parallel.pp);
  }
  if (ranks % parallel.tp == 0) {
    std::vector<int64_t> degrees = divisors(ranks / parallel.tp);
    std::erase_if(degrees, [&](int64_t pp) {
      return pp > config.model.num_hidden_layers;
    });
    return "use pp = " + one_of(degrees);
  }
  return fmt::format(
      "tp * pp must divide {}: use tp = {}, with pp = 1", ranks, tp_of(ranks));
}

void check_world(Findings& findings) {
  const ParallelConfig& parallel = findings.config.parallel;
  const int64_t rest = int64_t{parallel.tp} * parallel.pp;
  const int64_t product = rest * parallel.dp;
  if (product > kMaxRanks) {
    findings.error("world-size",
                   "parallel.dp",
                   fmt::format("tp {} * pp {} * dp {} is more than {} ranks",
                               parallel.tp,
                               parallel.pp,
                               parallel.dp,
                               kMaxRanks),
                   "use smaller degrees");
    return;
  }
  if (!findings.loaded().world_size) {
    return;
  }
  const int64_t ranks = *findings.loaded().world_size;
  if (ranks % rest != 0) {
    const bool is_pp = ranks % parallel.pp != 0 && ranks % parallel.tp == 0;
    findings.error("world-size",
                   is_pp ? "parallel.pp" : "parallel.tp",
                   fmt::format("{} cannot split over tp {} * pp {} = {}",
                               counted(ranks, "rank"),
                               parallel.tp,
                               parallel.pp,
                               rest),
                   world_fix(findings.config, ranks));
  } else if (product != ranks) {
    findings.error("world-size",
                   "parallel.dp",
                   fmt::format("tp {} * pp {} * dp {} = {}, and {} would be "
                               "started",
                               parallel.tp,
                               parallel.pp,
                               parallel.dp,
                               counted(product, "rank"),
                               ranks),
                   fmt::format("use dp = {}, or leave it out", ranks / rest));
  }
}

void check_sequence(Findings& findings) {
  const RunConfig& config = findings.config;
  const int64_t length = config.data.sequence_length;
  const int64_t shares = config.sequence_shares();
  if (length % shares == 0) {
    return;
  }
  const int64_t below = length / shares * shares;
  findings.error(
      "sequence-divides",
      "parallel.sequence_parallel",
      fmt::format("{} positions do not split over tp {}: {} * {} = {}",
                  length,
                  shares,
                  shares,
                  length / shares,
                  below),
      fmt::format("use data.sequence_length = {}, or sequence_parallel = false",
                  below > 0 ? below : shares));
}

}  // namespace

void check_layout(Findings& findings) {
  check_heads(findings);
  check_sequence(findings);
  check_stages(findings);
  check_world(findings);
}

}  // namespace triax
