// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

// torch.optim.Adam and AdamW raise in their constructors.
void check_bounds(ForeignFindings& findings,
                  const Real& fact,
                  double least,
                  double below,
                  const char* fix) {
  if (!fact.is_set() || (*fact >= least && *fact < below)) {
    return;
  }
  findings.error(
      "out-of-range",
      fact.key,
      std::isinf(below)
          ? fmt::format(
                "{:g}: torch's AdamW takes none below {:g}", *fact, least)
          : fmt::format("{:g}: torch's AdamW takes {:g} to below "
                        "{:g}",
                        *fact,
                        least,
                        below),
      fix,
      Effect::kFailsLater);
}

// The gradients are multiplied by max_norm / norm, at most 1, whatever its
// sign; only a config without a number goes without clipping.
void check_clipping(ForeignFindings& findings) {
  const Real norm = real_at(findings.config, findings.facts.clipping.key);
  if (!norm || *norm > 0) {
    return;
  }
  const bool is_nanotron = findings.config.system == System::kNanotron;
  findings.error(
      "out-of-range",
      norm.key,
      *norm == 0
          ? std::string("0 is not off: every gradient is multiplied by 0 and "
                        "nothing is learned")
          : fmt::format("{:g} turns every gradient round, and the loss is "
                        "climbed",
                        *norm),
      is_nanotron ? "use 1.0, or null for no clipping"
                  : "use 1.0, or 1e9 for no clipping",
      Effect::kSilentlyDifferent);
}

}  // namespace

void check_foreign_optimizer(ForeignFindings& findings) {
  const System system = findings.config.system;
  if (system != System::kTorchTitan && system != System::kNanotron) {
    return;  // others choose among optimizers of their own
  }
  const RunFacts& facts = findings.facts;
  const double any = std::numeric_limits<double>::infinity();
  check_bounds(findings, facts.lr, 0, any, "use 3e-4, for instance");
  check_bounds(findings, facts.weight_decay, 0, any, "use 0.1, or 0");
  if (facts.optimizer.value_or("") != "sgd") {
    check_bounds(findings, facts.beta1, 0, 1, "use 0.9");
    check_bounds(findings, facts.beta2, 0, 1, "use 0.95 or 0.999");
    check_bounds(findings, facts.adam_eps, 0, any, "use 1e-8");
  }
  check_clipping(findings);
}

}  // namespace triax
