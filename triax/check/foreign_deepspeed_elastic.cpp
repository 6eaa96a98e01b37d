// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/config/problem.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

const std::string kElasticity = "elasticity";

// Refused, unless elasticity is told to pass over them.
void check_batch_beside(ForeignFindings& findings) {
  const std::string key = kElasticity + ".ignore_non_elastic_batch_info";
  const ConfigValue* ignores = findings.value(key);
  const bool is_ignored = ignores != nullptr && deepspeed_truth(*ignores);
  for (const char* name : {"train_batch_size",
                           "train_micro_batch_size_per_gpu",
                           "gradient_accumulation_steps"}) {
    if (!findings.is_set(name)) {
      continue;
    }
    if (is_ignored) {
      findings.note("no-effect",
                    name,
                    "elasticity chooses the batch and overwrites it",
                    "leave it out",
                    Effect::kIgnored);
    } else {
      findings.error("refused-combination",
                     name,
                     "elasticity is enabled, chooses the batch itself and "
                     "stops where a batch size is given too",
                     fmt::format("remove it, or set {} to true", key));
    }
  }
}

void check_micro_batches(ForeignFindings& findings) {
  const std::string path = kElasticity + ".micro_batch_sizes";
  const ConfigValue* value = findings.value(path);
  if (value == nullptr) {
    return;
  }
  const auto* items = std::get_if<ConfigArray>(&value->data);
  if (items == nullptr) {
    findings.error("wrong-type",
                   path,
                   fmt::format("{} is {}, and it takes a list of whole numbers",
                               value_text(*value),
                               kind_of(*value)),
                   "write [2, 4, 8]");
    return;
  }
  for (const ConfigValue& item : *items) {
    const auto* whole = std::get_if<int64_t>(&item.data);
    if (whole == nullptr || *whole < 1) {
      Problem problem{Severity::kError, "out-of-range", path, item.position};
      problem.message = fmt::format(
          "{} is no size of a micro batch: a whole number of at least 1",
          value_text(item));
      problem.fix = "write [2, 4, 8]";
      problem.effect = Effect::kRefused;
      findings.add(std::move(problem));
    }
  }
}

}  // namespace

bool deepspeed_is_elastic(const ForeignFindings& findings) {
  const std::string& version = findings.context.version;
  return !version.empty() && compare_versions(version, "0.19.8") < 0 &&
         is_elastic(findings.config);
}

void check_deepspeed_elastic(ForeignFindings& findings) {
  check_batch_beside(findings);
  check_micro_batches(findings);
  for (const char* name : {"max_train_batch_size", "micro_batch_sizes"}) {
    if (!findings.is_set(kElasticity + "." + name)) {
      findings.error("refused-combination",
                     kElasticity + ".enabled",
                     fmt::format("it needs {}, which is not there", name),
                     fmt::format("set {}.{}", kElasticity, name));
    }
  }
  findings.not_judged(
      "the batch that elasticity chooses, and which worlds it accepts");
}

}  // namespace triax
