// SPDX-License-Identifier: Apache-2.0
// Settings that split the ranks into groups: ZeRO++, MiCS, AutoTP, Ulysses.
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/divisors.h"
#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_rules.h"
#include "triax/config/problem.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

const std::string kZero = "zero_optimization.";

// Whether groups of `size` ranks fill the world.
void check_group(ForeignFindings& findings,
                 const std::string& path,
                 int64_t size) {
  const Layout layout = layout_of(findings);
  const std::optional<int64_t>& world = layout.world;
  if (!world || (layout.is_world_a_setting && *world % size != 0)) {
    findings.not_judged(fmt::format(
        "whether {} {} divides the world: give --world", path, size));
    return;
  }
  if (*world > 0 && *world % size != 0) {
    findings.error(
        "refused-combination",
        path,
        fmt::format("{} ranks do not split into groups of {}: {} would be "
                    "left over",
                    *world,
                    size,
                    *world % size),
        fmt::format("use {}", dividing(*world)),
        Effect::kFailsLater);
  }
}

// The second copy of the weights, which a host's ranks are to share.
void check_second_copy(ForeignFindings& findings, int64_t stage) {
  const std::string path = kZero + "zero_hpz_partition_size";
  const Whole size = whole_at(findings.config, path);
  if (!size || *size < 2 || stage < 3) {
    return;
  }
  const Layout layout = layout_of(findings);
  const bool is_known =
      layout.world && *layout.world > 0 && !layout.is_world_a_setting;
  // A group larger than the world is the world.
  check_group(
      findings, path, is_known ? std::min(*size, *layout.world) : *size);
  const std::optional<int64_t> host = findings.context.ranks_on_host;
  if (host && *host > 0 && *host % *size != 0) {
    findings.note(
        "slow-choice",
        path,
        fmt::format("groups of {} do not lie within hosts of {} devices, so "
                    "the second copy, which is to save the network, is "
                    "gathered over it",
                    *size,
                    *host),
        fmt::format("use {}", *host),
        Effect::kSlow);
  }
}

// Stage 3 alone reads them.
void check_plus_plus_stage(ForeignFindings& findings, int64_t stage) {
  if (stage == 3) {
    return;
  }
  const Whole size =
      whole_at(findings.config, kZero + "zero_hpz_partition_size");
  if (size && *size > 1) {
    findings.warning("no-effect",
                     size.key,
                     fmt::format("only stage 3 has a second copy of the "
                                 "weights, and the stage is {}",
                                 stage),
                     "use stage 3, or leave it out",
                     Effect::kIgnored);
  }
  for (const char* name : {"zero_quantized_weights",
                           "zero_quantized_nontrainable_weights",
                           "zero_quantized_gradients"}) {
    if (deepspeed_flag(findings, kZero + name, false)) {
      findings.warning("no-effect",
                       kZero + name,
                       fmt::format("only stage 3 quantizes what it sends, and "
                                   "the stage is {}",
                                   stage),
                       "use stage 3, or leave it out",
                       Effect::kIgnored);
    }
  }
}

// The all-to-all's groups are made of whole hosts, whatever the stage.
void check_quantized_gradients(ForeignFindings& findings) {
  const std::string path = kZero + "zero_quantized_gradients";
  if (!deepspeed_flag(findings, path, false)) {
    return;
  }
  const std::optional<int64_t> world = layout_of(findings).world;
  const std::optional<int64_t> host = findings.context.ranks_on_host;
  if (!world || !host) {
    findings.not_judged(
        "whether the groups of zero_quantized_gradients fill the hosts: give "
        "--cluster");
    return;
  }
  if (*host > 0 && *world > *host && *world % *host != 0) {
    findings.error("refused-combination",
                   path,
                   fmt::format("its all-to-all needs whole hosts, and {} ranks "
                               "on hosts of {} leave {} over",
                               *world,
                               *host,
                               *world % *host),
                   fmt::format("use a multiple of {} ranks", *host),
                   Effect::kFailsLater);
  }
}

// Of releases before 0.19.7; later ones have refused the key by now.
void check_mics(ForeignFindings& findings, int64_t stage) {
  const std::string path = kZero + "mics_shard_size";
  const Whole size = whole_at(findings.config, path);
  const KeyRow* row = deepspeed_keys().find(path);
  if (!size || *size < 1 || row == nullptr ||
      !is_still_there(*row, findings.context.version)) {
    return;
  }
  if (stage < 3) {
    findings.warning(
        "no-effect",
        path,
        fmt::format("MiCS is a kind of stage 3, and the stage is {}", stage),
        "use stage 3, or leave it out",
        Effect::kIgnored);
    return;
  }
  check_group(findings, path, *size);
}

// The engine asks that both names of the degree agree.
void check_tensor_parallel(ForeignFindings& findings) {
  const Whole degree = whole_at(findings.config, "tensor_parallel.autotp_size");
  for (const char* name : {"tensor_parallel.tp.tp_size",
                           "tensor_parallel.tensor_parallel.tp_size"}) {
    const Whole other = whole_at(findings.config, name);
    if (other && *other != 1 && *other != degree.value_or(0)) {
      findings.error(
          "refused-combination",
          name,
          fmt::format("{}, and tensor_parallel.autotp_size is {}",
                      *other,
                      degree.value_or(0)),
          fmt::format("set tensor_parallel.autotp_size to {}, and leave this "
                      "out",
                      *other),
          Effect::kFailsLater);
    }
  }
}

// Read only where both are there.
void check_mesh(ForeignFindings& findings) {
  if (findings.is_set("data_parallel_size") &&
      !findings.is_set("sequence_parallel_size")) {
    findings.note("no-effect",
                  "data_parallel_size",
                  "it is read only beside sequence_parallel_size",
                  "leave it out",
                  Effect::kIgnored);
  }
}

}  // namespace

void check_deepspeed_groups(ForeignFindings& findings, int64_t stage) {
  check_second_copy(findings, stage);
  check_plus_plus_stage(findings, stage);
  check_quantized_gradients(findings);
  check_mics(findings, stage);
  check_tensor_parallel(findings);
  check_mesh(findings);
}

}  // namespace triax
