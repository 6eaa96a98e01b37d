// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "triax/base/saturating.h"
#include "triax/check/findings.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Number = std::optional<int64_t>;
using Args = MegatronArguments;

constexpr int64_t kMaxSize = int64_t{1} << 31;

bool is_size(const Number& number) {
  return number && *number > 0 && *number < kMaxSize;
}

// The experts' ranks: etp * ep * pp divides the world.
void check_expert_ranks(ForeignFindings& findings, const Args& args) {
  const Number ep = args.whole("expert-model-parallel-size");
  const Number tp = args.whole("tensor-model-parallel-size");
  const Number pp = args.whole("pipeline-model-parallel-size");
  const Number given = args.whole("expert-tensor-parallel-size");
  const Number etp = args.is_set("expert-tensor-parallel-size") ? given : tp;
  const Layout layout = layout_of(findings);
  const Number world = layout.world;
  if (!is_size(ep) || !is_size(etp) || !is_size(pp) || !is_size(world) ||
      *ep == 1 || saturating_product({*ep, *etp, *pp}) >= kMaxSize) {
    return;
  }
  const int64_t unit = *etp * *ep * *pp;
  if (*world % unit == 0) {
    return;
  }
  const bool is_too_small = *world < unit && layout.is_world_a_setting;
  findings.add({is_too_small ? Severity::kNote : Severity::kError,
                "experts-fit",
                "expert-model-parallel-size",
                {},
                fmt::format("expert tp {} * ep {} * pp {} = {} does not "
                            "divide {} ranks{}",
                            *etp,
                            *ep,
                            *pp,
                            unit,
                            *world,
                            is_too_small ? ", the script's default" : ""),
                is_too_small
                    ? fmt::format("start it on a multiple of {} ranks", unit)
                : *etp > 1 ? "use --expert-tensor-parallel-size 1, or a "
                             "smaller ep"
                           : "use a smaller --expert-model-parallel-size",
                Effect::kRefused,
                {}});
}

void check_expert_bias(ForeignFindings& findings, const Args& args) {
  const Number tp = args.whole("tensor-model-parallel-size");
  const Number given = args.whole("expert-tensor-parallel-size");
  const Number etp = args.is_set("expert-tensor-parallel-size") ? given : tp;
  if (args.whole("num-experts").value_or(0) > 0 && etp && *etp > 1 &&
      args.is_off("disable-bias-linear")) {
    findings.error("experts-fit",
                   "num-experts",
                   fmt::format("experts with biases, the default, are not "
                               "split over tp, and their tp is {}",
                               *etp),
                   "add --disable-bias-linear, or "
                   "--expert-tensor-parallel-size 1",
                   Effect::kRefused);
  }
}

void check_groups(ForeignFindings& findings, const Args& args) {
  const Number experts = args.whole("num-experts");
  const Number groups = args.whole("moe-router-num-groups");
  const Number chosen = args.whole("moe-router-group-topk");
  if (!chosen || *chosen < 1 || !is_size(groups)) {
    return;
  }
  if (is_size(experts) && *experts % *groups != 0) {
    findings.error(
        "experts-fit",
        "moe-router-num-groups",
        fmt::format(
            "{} experts do not split into {} groups", *experts, *groups),
        fmt::format("use {}", one_of(divisors(*experts))));
  }
  if (*chosen > *groups) {
    findings.error(
        "experts-fit",
        "moe-router-group-topk",
        fmt::format("{} groups are chosen, and there are {}", *chosen, *groups),
        fmt::format("use at most {}", *groups));
  }
}

void check_top_experts(ForeignFindings& findings, const Args& args) {
  const Number experts = args.whole("num-experts");
  const Number chosen = args.whole("moe-router-topk");
  if (is_size(experts) && chosen && *chosen > *experts &&
      args.is_set("moe-router-topk")) {
    findings.error("experts-fit",
                   "moe-router-topk",
                   fmt::format("every token goes to {} experts, and there are "
                               "{}",
                               *chosen,
                               *experts),
                   fmt::format("use at most {}", *experts),
                   Effect::kFailsLater);
  }
}

void check_balancing(ForeignFindings& findings, const Args& args) {
  const auto kinds = args.items("moe-router-load-balancing-type");
  if (!kinds || kinds->size() < 2 || !args.is_closed()) {
    return;
  }
  const ConfigValue* value = findings.value("moe-aux-loss-coeff");
  const auto* list =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  const size_t num_coefficients = list == nullptr ? 1 : list->size();
  if (value != nullptr && list == nullptr) {
    return;
  }
  if (num_coefficients != kinds->size()) {
    findings.error(
        "experts-fit",
        "moe-router-load-balancing-type",
        fmt::format("{} kinds of balancing and {} coefficients",
                    kinds->size(),
                    num_coefficients),
        fmt::format("give {} values to --moe-aux-loss-coeff", kinds->size()));
  }
}

void check_context(ForeignFindings& findings, const Args& args) {
  const Number cp = args.whole("context-parallel-size");
  const auto parts = args.items("hierarchical-context-parallel-sizes");
  if (cp && parts) {
    int64_t product = 1;
    for (const std::string& part : *parts) {
      int64_t size = 0;
      for (const char c : part) {
        size = c >= '0' && c <= '9'
                   ? std::min<int64_t>(size * 10 + (c - '0'), 1 << 20)
                   : size;
      }
      product = std::min<int64_t>(product * size, kMaxSize);
    }
    if (product != *cp) {
      findings.error(
          "refused-combination",
          "hierarchical-context-parallel-sizes",
          fmt::format("their product is {}, and cp is {}", product, *cp),
          fmt::format("use sizes whose product is {}", *cp));
    }
  }
  const auto kinds = args.items("cp-comm-type");
  if (!kinds) {
    return;
  }
  const bool is_two_level =
      std::find(kinds->begin(), kinds->end(), "a2a+p2p") != kinds->end();
  if (is_two_level && args.is_off("hierarchical-context-parallel-sizes")) {
    findings.error("refused-combination",
                   "cp-comm-type",
                   "a2a+p2p has two levels, and their sizes are not given",
                   "add --hierarchical-context-parallel-sizes");
  }
  const Number layers = args.whole("num-layers");
  if (kinds->size() > 1 && cp && *cp > 1 && layers &&
      static_cast<int64_t>(kinds->size()) != *layers) {
    findings.error("refused-combination",
                   "cp-comm-type",
                   fmt::format("{} kinds for {} layers: one for all, or one "
                               "each",
                               kinds->size(),
                               *layers),
                   "give one kind");
  }
}

void check_weight_shards(ForeignFindings& findings,
                         const Args& args,
                         const char* key,
                         const Number& tp) {
  const Number shards = args.whole(key);
  if (!shards || !is_size(tp) || (*shards >= *tp && *shards % *tp == 0)) {
    return;
  }
  findings.error("refused-combination",
                 key,
                 fmt::format("{} shards of a weight are no multiple of its tp "
                             "{}",
                             *shards,
                             *tp),
                 fmt::format("use {} or {}", *tp, 2 * *tp));
}

void check_recompute_modules(ForeignFindings& findings, const Args& args) {
  static const std::vector<std::string> kModules = {"core_attn",
                                                    "moe_act",
                                                    "layernorm",
                                                    "mla_up_proj",
                                                    "mlp",
                                                    "moe",
                                                    "shared_experts",
                                                    "gdn_norm_out"};
  const auto modules = args.items("recompute-modules");
  const bool is_selective =
      args.is_text("recompute-granularity", "selective") ||
      args.is_on("recompute-activations");
  if (!modules || !is_selective) {
    return;
  }
  for (const std::string& module : *modules) {
    if (std::find(kModules.begin(), kModules.end(), module) == kModules.end()) {
      findings.error(
          "unknown-value",
          "recompute-modules",
          fmt::format(
              "{} is none of {}", in_quotes(module), fmt::join(kModules, ", ")),
          "name one of them");
    }
  }
}

void check_offload(ForeignFindings& findings, const Args& args) {
  const Number count = args.whole("cpu-offloading-num-layers");
  const Number layers = args.whole("num-layers");
  if (count && *count > 0 && is_size(layers) && *count >= *layers) {
    findings.error("refused-combination",
                   "cpu-offloading-num-layers",
                   fmt::format("{} layers of {} would go to the host: at least "
                               "one stays",
                               *count,
                               *layers),
                   fmt::format("use at most {}", *layers - 1));
  }
}

// --eval-global-batch-size splits as the other does.
void check_eval_batch(ForeignFindings& findings, const Args& args) {
  const Number global = args.whole("eval-global-batch-size");
  const Number given = args.whole("eval-micro-batch-size");
  const Number micro = given ? given : args.whole("micro-batch-size");
  if (is_size(global) && is_size(micro) && *global % *micro != 0) {
    findings.error(
        "batch-triangle",
        "eval-global-batch-size",
        fmt::format(
            "{} is not a multiple of the micro batch {}", *global, *micro),
        fmt::format("use {}", saturating_round_up(*global, *micro)));
  }
}

void check_no_rope(ForeignFindings& findings, const Args& args) {
  const std::optional<std::string> every = args.text("no-rope-freq");
  const Number layers = args.whole("num-layers");
  if (!every || every->empty() || every->size() > 6 || !is_size(layers) ||
      !std::all_of(every->begin(), every->end(), [](char c) {
        return c >= '0' && c <= '9';
      })) {
    return;
  }
  const int64_t step = std::stoll(*every);
  if (step > 0 && *layers % step != 0) {
    findings.error(
        "refused-combination",
        "no-rope-freq",
        fmt::format(
            "every {}th of {} layers does not come out even", step, *layers),
        fmt::format("use {}", one_of(divisors(*layers))));
  }
}

// RotaryEmbedding: an odd number of elements gets one frequency more than half
// of it, and the angles are one wider than the head.
void check_rotary(ForeignFindings& findings, const Args& args) {
  const std::string kind = args.text("position-embedding-type").value_or("");
  const bool has_rope = kind == "rope" || kind == "yarn" || kind == "mrope" ||
                        args.is_on("use-rotary-position-embeddings");
  const Number hidden = args.whole("hidden-size");
  const Number heads = args.whole("num-attention-heads");
  const Number channels = args.whole("kv-channels");
  if (!has_rope) {
    return;
  }
  if (args.is_on("multi-latent-attention")) {
    const Number rotated = args.whole("qk-pos-emb-head-dim");
    if (is_size(rotated) && *rotated % 2 != 0) {
      findings.error("head-dim-odd",
                     "qk-pos-emb-head-dim",
                     fmt::format("RoPE turns pairs of a head's elements, and "
                                 "{} are odd",
                                 *rotated),
                     fmt::format("use {}", *rotated + 1),
                     Effect::kFailsLater);
    }
    return;
  }
  const bool is_given = args.is_set("kv-channels");
  const bool is_derived = args.is_off("kv-channels") && is_size(hidden) &&
                          is_size(heads) && *hidden % *heads == 0;
  if (!is_derived && !is_size(channels)) {
    return;
  }
  const int64_t dim = is_given ? *channels : *hidden / *heads;
  const double share = args.number("rotary-percent").value_or(0.0);
  if (dim % 2 == 0 || share < 1.0) {
    return;  // a part of the head leaves room for the odd one
  }
  findings.error(
      "head-dim-odd",
      is_given ? "kv-channels" : "num-attention-heads",
      is_given
          ? fmt::format("RoPE turns pairs of a head's elements, and {} are odd",
                        dim)
          : fmt::format("hidden-size {} / num-attention-heads {} = {} elements "
                        "a head, and RoPE turns pairs of them",
                        *hidden,
                        *heads,
                        dim),
      is_given ? fmt::format("use --kv-channels {}", dim + 1)
               : fmt::format("use another number of heads, or --kv-channels {}",
                             dim + 1),
      Effect::kFailsLater);
}

}  // namespace

void check_megatron_sizes(ForeignFindings& findings, const Args& args) {
  check_expert_ranks(findings, args);
  check_expert_bias(findings, args);
  check_groups(findings, args);
  check_top_experts(findings, args);
  check_balancing(findings, args);
  check_context(findings, args);
  const Number tp = args.whole("tensor-model-parallel-size");
  const Number given = args.whole("expert-tensor-parallel-size");
  check_weight_shards(findings, args, "tensor-parallel-num-weight-shards", tp);
  check_weight_shards(findings,
                      args,
                      "expert-tensor-parallel-num-weight-shards",
                      args.is_set("expert-tensor-parallel-size") ? given : tp);
  check_recompute_modules(findings, args);
  check_offload(findings, args);
  check_eval_batch(findings, args);
  check_no_rope(findings, args);
  check_rotary(findings, args);
}

}  // namespace triax
