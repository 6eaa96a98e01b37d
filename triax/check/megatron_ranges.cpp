// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Args = MegatronArguments;

constexpr double kAny = std::numeric_limits<double>::infinity();

// Bounds of a number that the parser lets through, and who stops at it then.
struct Range {
  const char* key;
  double least = 0;
  double most = kAny;
  bool excludes_least = false;
  bool excludes_most = false;
  const char* what;
  const char* fix;
  Severity severity = Severity::kError;
  Effect effect = Effect::kFailsLater;
  bool (*counts)(const Args&) = nullptr;  // nullptr: always
};

bool trains(const Args& args) {
  return args.is_off("skip-train");
}

bool has_adam(const Args& args) {
  return args.is_text("optimizer", "adam");
}

bool scales_dynamically(const Args& args) {
  return args.is_on("fp16") && args.is_off("loss-scale");
}

bool decays_constantly(const Args& args) {
  return trains(args) && args.is_text("weight-decay-incr-style", "constant");
}

constexpr const char* kProbability =
    "torch.nn.Dropout takes a probability from 0 to 1";
constexpr const char* kBeta =
    "torch's AdamW takes a beta from 0 to below 1, and the fused ones divide "
    "by 1 - beta^step";

constexpr Range kRanges[] = {
    {.key = "attention-dropout",
     .most = 1,
     .what = kProbability,
     .fix = "use 0.1, or 0"},
    {.key = "hidden-dropout",
     .most = 1,
     .what = kProbability,
     .fix = "use 0.1, or 0"},
    {.key = "adam-beta1",
     .most = 1,
     .excludes_most = true,
     .what = kBeta,
     .fix = "use 0.9",
     .counts = has_adam},
    {.key = "adam-beta2",
     .most = 1,
     .excludes_most = true,
     .what = kBeta,
     .fix = "use 0.95 or 0.999",
     .counts = has_adam},
    {.key = "adam-eps",
     .what = "torch's AdamW takes no negative eps",
     .fix = "use 1e-8",
     .counts = has_adam},
    {.key = "sgd-momentum",
     .what = "torch's SGD takes no negative momentum",
     .fix = "use 0.9",
     .counts = [](const Args& a) { return a.is_text("optimizer", "sgd"); }},
    {.key = "lr",
     .what = "--min-lr, 0 by default, must not be larger",
     .fix = "use a positive rate",
     .effect = Effect::kRefused,
     .counts = trains},
    {.key = "min-lr",
     .what = "the schedule asserts that it is not negative",
     .fix = "use 0, or a tenth of --lr",
     .effect = Effect::kRefused,
     .counts = trains},
    {.key = "lr-warmup-init",
     .what = "the warm-up would begin by climbing up the loss",
     .fix = "use 0",
     .severity = Severity::kWarning,
     .effect = Effect::kSilentlyDifferent,
     .counts = trains},
    {.key = "weight-decay",
     .what = "the schedule asserts that it is not negative",
     .fix = "use 0.1, or 0",
     .effect = Effect::kRefused,
     .counts = decays_constantly},
    {.key = "start-weight-decay",
     .what = "the schedule asserts that it is not negative",
     .fix = "use 0",
     .effect = Effect::kRefused,
     .counts = trains},
    {.key = "init-method-std",
     .what = "torch's normal_ takes no negative deviation",
     .fix = "use 0.02"},
    {.key = "norm-epsilon",
     .what = "a small variance plus it has no square root",
     .fix = "use 1e-5",
     .severity = Severity::kWarning,
     .effect = Effect::kSilentlyDifferent},
    {.key = "loss-scale",
     .what = "the scaler asserts that it is not negative",
     .fix = "use 4096, or leave it out",
     .counts = [](const Args& a) { return a.is_on("fp16"); }},
    {.key = "min-loss-scale",
     .excludes_least = true,
     .what = "the scaler asserts that it is above 0",
     .fix = "use 1",
     .counts = scales_dynamically},
    {.key = "loss-scale-window",
     .excludes_least = true,
     .what = "the scaler asserts that it is above 0",
     .fix = "use 1000",
     .counts = scales_dynamically},
    {.key = "hysteresis",
     .excludes_least = true,
     .what = "the scaler asserts that it is above 0",
     .fix = "use 2",
     .counts = scales_dynamically},
    {.key = "clip-grad",
     .what = "it switches clipping off, as 0 does",
     .fix = "use 0 if that is meant, else 1.0",
     .severity = Severity::kNote,
     .effect = Effect::kSilentlyDifferent},
};

bool is_outside(const Range& range, double number) {
  return !std::isfinite(number) || number < range.least ||
         number > range.most ||
         (range.excludes_least && number == range.least) ||
         (range.excludes_most && number == range.most);
}

// "must lie in [0, 1)".
std::string bounds_text(const Range& range) {
  if (range.most == kAny) {
    return fmt::format("must {} {:g}",
                       range.excludes_least ? "be above" : "not be below",
                       range.least);
  }
  return fmt::format("must lie in [{:g}, {:g}{}",
                     range.least,
                     range.most,
                     range.excludes_most ? ")" : "]");
}

void check_range(ForeignFindings& findings,
                 const Args& args,
                 const Range& range) {
  const std::optional<double> number = args.number(range.key);
  if (!args.is_set(range.key) || !number || !is_outside(range, *number) ||
      (range.counts != nullptr && !range.counts(args))) {
    return;
  }
  const bool is_off = range.severity == Severity::kNote;
  findings.add(
      {range.severity,
       is_off ? "clipping-off" : "out-of-range",
       range.key,
       {},
       is_off ? fmt::format("{:g}: {}", *number, range.what)
              : fmt::format(
                    "{:g} {}: {}", *number, bounds_text(range), range.what),
       range.fix,
       range.effect,
       {}});
}

void check_ends(ForeignFindings& findings,
                const Args& args,
                const char* low_key,
                const char* high_key,
                Effect effect) {
  const std::optional<double> low = args.number(low_key);
  const std::optional<double> high = args.number(high_key);
  if (low && high && *low >= 0 && *high >= 0 && *low > *high) {
    findings.error("out-of-range",
                   args.is_set(high_key) ? high_key : low_key,
                   fmt::format("--{} {:g} is larger than --{} {:g}",
                               low_key,
                               *low,
                               high_key,
                               *high),
                   fmt::format("use at least {:g}", *low),
                   effect);
  }
}

}  // namespace

void check_megatron_ranges(ForeignFindings& findings, const Args& args) {
  for (const Range& range : kRanges) {
    check_range(findings, args, range);
  }
  if (trains(args) && args.is_set("weight-decay-incr-style")) {
    check_ends(findings,
               args,
               "start-weight-decay",
               "end-weight-decay",
               Effect::kRefused);
  }
  if (scales_dynamically(args)) {
    check_ends(findings,
               args,
               "min-loss-scale",
               "initial-loss-scale",
               Effect::kFailsLater);
  }
}

}  // namespace triax
