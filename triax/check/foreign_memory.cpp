// SPDX-License-Identifier: Apache-2.0
// Rules over bytes: what would fit, and what crosses the network for nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/base/units.h"
#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_memory.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

// Of a device's memory; the rest is for activations and the allocator.
constexpr double kShareForStates = 0.5;
// The rest is for temporaries, buffers and the allocator.
constexpr double kShareForAll = 0.7;
constexpr double kHalfBytes = 2.0;

// What the rules share: all of it is known.
struct Sized {
  ModelSizes model;
  double parameters = 0.0;  // of one rank, where zero splits nothing
  int dp = 1;
  double device_bytes = 0.0;
};

// nullopt, and a note: something is not known.
std::optional<Sized> sized(ForeignFindings& findings,
                           const Layout& layout,
                           const std::string& question,
                           OpenQuestions& questions) {
  const std::optional<ModelSizes> model = model_sizes(findings);
  const std::optional<int64_t>& memory = findings.context.device_bytes;
  const bool has_dp = layout.dp && *layout.dp > 0;
  const std::string missing =
      lacking({{model.has_value(), model_argument(findings)},
               {has_dp || layout.world, "--world"},
               {memory.has_value(), "--cluster with device_memory"}});
  if (!missing.empty()) {
    questions.ask(question, missing);
  }
  if (!missing.empty() || !has_dp) {
    return std::nullopt;
  }
  if (findings.facts.experts.value_or(0) > 1) {
    findings.not_judged(fmt::format("{}: experts are not counted", question));
    return std::nullopt;
  }
  const double share =
      static_cast<double>(layout.tp) * static_cast<double>(layout.pp);
  return Sized{*model,
               model->parameters() / share,
               static_cast<int>(std::min<int64_t>(*layout.dp, 1 << 20)),
               static_cast<double>(*memory)};
}

// Bytes that a rank sends in one step, with elements of two bytes: the
// gradients once, or after each of m microbatches, and the weights once, or
// twice a microbatch (Rajbhandari et al. 2020, section 7).
double bytes_sent(const Sized& run, int64_t stage, double microbatches) {
  const double once = kHalfBytes * run.parameters;
  return stage <= 1   ? 2.0 * once
         : stage == 2 ? (microbatches + 1.0) * once
                      : 3.0 * microbatches * once;
}

// Empty: the network is not known, or dp does not use it.
std::string network_text(const ForeignFindings& findings,
                         const Sized& run,
                         int64_t stage) {
  const ForeignContext& context = findings.context;
  const Layout layout = layout_of(findings);
  const double count =
      static_cast<double>(num_microbatches(findings).value_or(1));
  const bool crosses = context.ranks_on_host && layout.world &&
                       *layout.world > *context.ranks_on_host;
  if (!context.link_bytes_per_second || *context.link_bytes_per_second <= 0.0 ||
      !crosses || count < 1.0) {
    return "";
  }
  const double high = bytes_sent(run, stage, count);
  const double low = bytes_sent(run, 1, count);
  const double rate = *context.link_bytes_per_second;
  return fmt::format(
      "zero {} sends {} a step with {:g} microbatch{}, {} at {}, where zero 1 "
      "sends {} in {}",
      stage,
      bytes_text(high),
      count,
      count == 1.0 ? "" : "es",
      format_duration(high / rate),
      format_bandwidth(rate),
      bytes_text(low),
      format_duration(low / rate));
}

// Stage 3, and stage 2 where each of several microbatches is reduced.
bool costs_network(const ForeignFindings& findings, int64_t stage) {
  return stage == 3 ||
         (stage == 2 && findings.config.system == System::kDeepSpeed &&
          num_microbatches(findings).value_or(1) > 1);
}

// What decides besides the stage and is another's to say; empty: nothing.
std::string open_choice(const ForeignFindings& findings) {
  if (findings.config.system != System::kDeepSpeed) {
    return "";
  }
  const std::string zero = "zero_optimization.";
  const Whole group =
      whole_at(findings.config, zero + "zero_hpz_partition_size");
  if (group.value_or(1) > 1) {
    return fmt::format(
        "{} {} keeps a copy of the weights nearer to each rank (ZeRO++)",
        group.key,
        *group);
  }
  for (const char* name :
       {"zero_quantized_weights", "zero_quantized_gradients"}) {
    if (deepspeed_flag(findings, zero + name, false)) {
      return fmt::format("{}{} sends fewer bytes (ZeRO++)", zero, name);
    }
  }
  std::vector<std::string> automatic;
  for (const char* key : {"gradient_accumulation_steps",
                          "train_micro_batch_size_per_gpu",
                          "bf16.enabled",
                          "fp16.enabled",
                          "zero_optimization.offload_optimizer.device",
                          "zero_optimization.offload_param.device"}) {
    if (word_at(findings.config, key).value_or("") == "auto") {
      automatic.emplace_back(key);
    }
  }
  return automatic.empty()
             ? ""
             : fmt::format(
                   "{} {} \"auto\", and {} decides",
                   fmt::join(automatic, ", "),
                   automatic.size() == 1 ? "is" : "are",
                   automatic.size() == 1 ? "its value" : "what fills them");
}

void check_zero(ForeignFindings& findings,
                const Layout& layout,
                OpenQuestions& questions) {
  const Whole& stage = findings.facts.zero_stage;
  if (!stage.is_set() || *stage > 3 || !costs_network(findings, *stage)) {
    return;
  }
  const std::string open = open_choice(findings);
  if (!open.empty()) {
    findings.not_judged(
        fmt::format("whether zero 1 would be faster: {}", open));
    return;
  }
  const std::optional<Sized> run =
      sized(findings, layout, "whether zero 1 would fit", questions);
  if (!run) {
    return;
  }
  const double bytes = zero_model_state_bytes(run->parameters, 1, run->dp, {});
  std::string network = network_text(findings, *run, *stage);
  if (bytes > kShareForStates * run->device_bytes ||
      (network.empty() && *stage < 3)) {
    return;
  }
  if (network.empty()) {
    network = "zero 3 gathers the weights twice a step";
  }
  findings.note(
      "slow-choice",
      stage.key,
      fmt::format("zero 1 fits: {} parameters a rank * (4 + 12 / dp {}) bytes "
                  "= {} of {}; {}",
                  count_text(run->parameters),
                  run->dp,
                  bytes_text(bytes),
                  bytes_text(run->device_bytes),
                  network),
      "use zero 1",
      Effect::kSlow);
}

void check_buckets(ForeignFindings& findings) {
  const Whole& bucket = findings.facts.bucket_elements;
  if (!bucket.is_set()) {
    return;
  }
  const std::optional<ModelSizes> model = model_sizes(findings);
  if (!model) {
    findings.not_judged(
        fmt::format("whether {} {} is larger than the model: give {}",
                    bucket.key,
                    *bucket,
                    model_argument(findings)));
    return;
  }
  const Layout layout = layout_of(findings);
  const double parameters =
      model->parameters() /
      (static_cast<double>(layout.tp) * static_cast<double>(layout.pp));
  if (static_cast<double>(*bucket) >= parameters) {
    findings.note("slow-choice",
                  bucket.key,
                  fmt::format("one bucket of {} elements holds all {} "
                              "gradients, so nothing overlaps with the "
                              "backward pass",
                              format_count(*bucket),
                              count_text(parameters)),
                  fmt::format("use {:.0f} or less", parameters / 10.0),
                  Effect::kSlow);
  }
}

void check_recompute(ForeignFindings& findings,
                     const Layout& layout,
                     OpenQuestions& questions) {
  const RunFacts& facts = findings.facts;
  const bool is_full = facts.recompute.is_set() && *facts.recompute == "full";
  const std::optional<double> tokens_known = microbatch_tokens(facts, layout);
  if (!is_full || !tokens_known) {
    return;
  }
  const std::optional<Sized> run = sized(
      findings, layout, "whether memory is free without recompute", questions);
  if (!run) {
    return;
  }
  const auto tp = static_cast<double>(layout.tp);
  const auto pp = static_cast<double>(layout.pp);
  const double tokens = *tokens_known;
  const double live = std::min(
      pp, static_cast<double>(num_microbatches(findings).value_or(layout.pp)));
  const double layer = layer_bytes(run->model, tokens, tp);
  const double layers = std::ceil(run->model.layers / pp);
  const double states = zero_model_state_bytes(
      run->parameters,
      static_cast<int>(std::clamp<int64_t>(facts.zero_stage.value_or(0), 0, 3)),
      run->dp,
      {});
  // The loss's copy of the logits is in fp32.
  const double logits = 6.0 * tokens * run->model.vocabulary / tp;
  const double bytes = states + layers * live * layer + logits;
  if (!(bytes <= kShareForAll * run->device_bytes)) {
    return;
  }
  findings.note(
      "slow-choice",
      facts.recompute.key,
      fmt::format("memory is free without full recompute: states {} + {:.0f} "
                  "layers * {:.0f} live microbatch{} * {} + logits {} = {} of "
                  "{}; recompute runs each forward pass twice",
                  bytes_text(states),
                  layers,
                  live,
                  live == 1.0 ? "" : "es",
                  bytes_text(layer),
                  bytes_text(logits),
                  bytes_text(bytes),
                  bytes_text(run->device_bytes)),
      "leave it out, or recompute selectively",
      Effect::kSlow);
}

}  // namespace

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(std::min(bytes, 9e18)));
}

std::string count_text(double count) {
  return format_count(static_cast<int64_t>(std::min(count, 9e18)));
}

std::optional<double> microbatch_tokens(const RunFacts& facts,
                                        const Layout& layout) {
  const bool is_known = facts.sequence && facts.microbatch &&
                        *facts.sequence > 0 && *facts.microbatch > 0;
  if (!is_known) {
    return std::nullopt;
  }
  return static_cast<double>(*facts.sequence) *
         static_cast<double>(*facts.microbatch) /
         static_cast<double>(layout.cp);
}

double layer_bytes(const ModelSizes& model, double tokens, double tp) {
  if (!model.is_gated) {
    return tokens * model.hidden * (10.0 + 24.0 / tp);
  }
  const double attention =
      (4.0 + 4.0 * model.kv_heads / model.heads) * model.hidden;
  return tokens * (8.0 * model.hidden + (attention + 6.0 * model.ffn) / tp);
}

void OpenQuestions::ask(const std::string& question,
                        const std::string& missing) {
  for (auto& [other, questions] : by_missing_) {
    if (other == missing) {
      questions.push_back(question);
      return;
    }
  }
  by_missing_.push_back({missing, {question}});
}

void OpenQuestions::say(ForeignFindings& findings) const {
  for (const auto& [missing, questions] : by_missing_) {
    findings.not_judged(
        fmt::format("{}: give {}", fmt::join(questions, ", "), missing));
  }
}

void check_foreign_memory(ForeignFindings& findings) {
  const Layout layout = layout_of(findings);
  OpenQuestions questions;
  check_fit(findings, layout, questions);
  check_zero(findings, layout, questions);
  check_buckets(findings);
  check_recompute(findings, layout, questions);
  questions.say(findings);
}

}  // namespace triax
