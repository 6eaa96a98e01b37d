// SPDX-License-Identifier: Apache-2.0
// A run that a device's memory cannot hold, whatever else happens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_memory.h"
#include "triax/check/foreign_states.h"
#include "triax/foreign/megatron_arguments_view.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

// Of no model, but of a slip in its sizes.
constexpr double kMostParameters = 1e15;

const char* const kQuestion = "whether a rank's memory holds the run";

/// The least that a rank keeps at the same time.
struct LeastBytes {
  double states = 0.0;
  double activations = 0.0;
  std::string activations_text;  // empty: none are counted

  double all() const { return states + activations; }
};

// "(2 + 4 + 12 / 8)", of weights, gradients and optimizer states.
std::string formula(const KeptStates& states) {
  struct Term {
    double bytes;
    int first_stage;
  };
  std::vector<std::string> parts;
  for (const Term& term : {Term{states.bytes.weight, 3},
                           Term{states.bytes.gradient, 2},
                           Term{states.bytes.optimizer, 1}}) {
    if (term.bytes > 0.0) {
      parts.push_back(
          states.stage >= term.first_stage && states.shards.value_or(1) > 1
              ? fmt::format("{:g} / {}", term.bytes, states.shards.value_or(1))
              : fmt::format("{:g}", term.bytes));
    }
  }
  return parts.size() == 1 ? parts[0]
                           : fmt::format("({})", fmt::join(parts, " + "));
}

double state_bytes(const KeptStates& states, double parameters, int stage) {
  return zero_model_state_bytes(parameters,
                                stage,
                                static_cast<int>(std::clamp<int64_t>(
                                    states.shards.value_or(1), 1, 1 << 20)),
                                states.bytes);
}

// Every token's activations stay in 16 bits until its backward.
bool keeps_all_activations(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const std::string precision = facts.precision.value_or("");
  if (facts.recompute.value_or("") != "none" ||
      (precision != "bf16" && precision != "fp16")) {
    return false;
  }
  if (findings.config.system == System::kTorchTitan) {
    return !torchtitan_flag(findings.config, "compile.enable");
  }
  const MegatronArguments args(findings.config);
  return findings.config.system != System::kMegatron ||
         (args.is_off("fine-grained-activation-offloading") &&
          args.is_off("cpu-offloading-num-layers"));
}

void add_activations(const ForeignFindings& findings,
                     const Layout& layout,
                     const ModelSizes& model,
                     LeastBytes& least) {
  const RunFacts& facts = findings.facts;
  const std::optional<double> tokens_known = microbatch_tokens(facts, layout);
  if (!tokens_known || !keeps_all_activations(findings)) {
    return;
  }
  const auto tp = static_cast<double>(layout.tp);
  const auto pp = static_cast<double>(layout.pp);
  const double tokens = *tokens_known;
  const bool is_whole =
      facts.sequence_parallel && !*facts.sequence_parallel && tp > 1.0;
  double layer = is_whole ? layer_bytes(model, tokens, tp)
                          : layer_bytes(model, tokens, 1.0) / tp;
  if (!model.is_gated) {
    // For any width, and without the masks of drop-out.
    layer += tokens * (4.0 * model.ffn - 16.0 * model.hidden) / tp -
             2.0 * tokens * model.hidden / (is_whole ? 1.0 : tp);
  }
  // The first stage of a pipeline holds the most, where its layers are the
  // mean.
  const bool is_even = !facts.has_custom_stages.value_or(false) &&
                       !facts.first_stage_layers.is_set() &&
                       !facts.last_stage_layers.is_set();
  const auto count =
      static_cast<double>(num_microbatches(findings).value_or(1));
  const double live = is_even ? std::clamp(count, 1.0, pp) : 1.0;
  const double layers = model.layers / pp;
  least.activations = layers * live * layer;
  least.activations_text = fmt::format(
      " + {:g} layers * {:g} live microbatch{} * {} of "
      "activations = {}",
      layers,
      live,
      live == 1.0 ? "" : "es",
      bytes_text(layer),
      bytes_text(least.all()));
}

// The next stage that fits, else more ranks.
std::string way_out(const ForeignFindings& findings,
                    const KeptStates& states,
                    const LeastBytes& least,
                    double parameters) {
  const double room = static_cast<double>(*findings.context.device_bytes);
  const System system = findings.config.system;
  const int most = system == System::kDeepSpeed    ? 3
                   : system == System::kTorchTitan ? 0
                                                   : 1;
  for (int stage = states.stage + 1;
       stage <= most && states.shards.value_or(1) > 1;
       ++stage) {
    const double bytes =
        state_bytes(states, parameters, stage) + least.activations;
    if (bytes <= room) {
      return fmt::format("use {} ({})",
                         system == System::kMegatron
                             ? "--use-distributed-optimizer"
                             : fmt::format("zero {}", stage),
                         bytes_text(bytes));
    }
  }
  if (system == System::kDeepSpeed) {
    return "use more ranks, offload_optimizer and offload_param, or a smaller "
           "model";
  }
  if (least.states <= room) {
    return "recompute the layers, or use a smaller microbatch";
  }
  const double times = std::ceil(least.all() / room);
  return states.stage == 3
             ? fmt::format("use {:.0f} times as many ranks, or a smaller model",
                           times)
             : fmt::format(
                   "split the model over {:.0f} times as many ranks by "
                   "tp or pp, or use a smaller one",
                   times);
}

// The vocabulary may be the tokenizer's: without it, it is still the least.
std::optional<ModelSizes> least_sizes(const ForeignFindings& findings) {
  const std::optional<ModelSizes> sizes = model_sizes(findings);
  return sizes ? sizes : model_sizes_but_vocabulary(findings);
}

// Empty: it can be judged, where the arguments say what lacks.
std::string obstacle(const ForeignFindings& findings,
                     const KeptStates& states) {
  return findings.facts.experts.value_or(0) > 1 ? "experts are not counted"
                                                : states.unknown;
}

// The other file of a pair, or another program, says what is kept.
bool is_judged_elsewhere(const ForeignFindings& findings) {
  const System system = findings.config.system;
  return system == System::kTriax ||
         (system == System::kDeepSpeed && !deepspeed_fork(findings).empty()) ||
         (system == System::kMegatron &&
          MegatronArguments(findings.config).is_deepspeed());
}

// A program that is not for pretraining alone may freeze weights (LoRA).
bool may_freeze(const ForeignFindings& findings) {
  const System system = findings.config.system;
  return system == System::kDeepSpeed ||
         (system == System::kMegatron &&
          !MegatronArguments(findings.config).script().starts_with("pretrain"));
}

}  // namespace

void check_fit(ForeignFindings& findings,
               const Layout& layout,
               OpenQuestions& questions) {
  if (is_judged_elsewhere(findings)) {
    return;
  }
  const RunFacts& facts = findings.facts;
  const std::optional<ModelSizes> sizes = least_sizes(findings);
  const std::optional<int64_t>& memory = findings.context.device_bytes;
  const bool is_asked = memory || findings.context.model;
  if (!is_asked && !sizes) {
    return;  // nothing is said of any byte
  }
  const KeptStates states = kept_states(findings, layout);
  const std::string why_not = obstacle(findings, states);
  if (!why_not.empty()) {
    if (is_asked) {
      findings.not_judged(fmt::format("{}: {}", kQuestion, why_not));
    }
    return;
  }
  const bool has_world = states.stage == 0 || states.shards ||
                         (layout.world && !layout.is_world_a_setting);
  const std::string missing =
      lacking({{sizes.has_value(), model_argument(findings)},
               {has_world, "--world"},
               {memory.has_value(), "--cluster with device_memory"}});
  if (!missing.empty()) {
    questions.ask(kQuestion, missing);
    return;
  }
  const bool has_shards = states.stage == 0 || states.shards;
  const double parameters =
      sizes->parameters() /
      (static_cast<double>(layout.tp) * static_cast<double>(layout.pp));
  if (!has_shards || layout.is_partly_known || parameters > kMostParameters) {
    return;  // the layout, or the sizes, are a finding or note of their own
  }
  LeastBytes least;
  least.states = state_bytes(states, parameters, states.stage);
  add_activations(findings, layout, *sizes, least);
  const double room = static_cast<double>(*memory);
  if (!(least.all() > room)) {
    if (sizes->vocabulary <= 0.0) {
      questions.ask(kQuestion, std::string(model_argument(findings)));
    }
    return;
  }
  findings.warning(
      "memory-exceeds-machine",
      facts.layers.key.empty() || !findings.is_set(facts.layers.key)
          ? facts.zero_stage.key
          : facts.layers.key,
      fmt::format("{} parameters{} a rank * {} bytes = {} of weights, "
                  "gradients and optimizer states{}{}, more than the {} of a "
                  "device",
                  count_text(parameters),
                  sizes->vocabulary > 0.0 ? "" : " without the embedding",
                  formula(states),
                  bytes_text(least.states),
                  may_freeze(findings) ? ", if all of the model trains" : "",
                  least.activations_text,
                  bytes_text(room)),
      way_out(findings, states, least, parameters),
      Effect::kOutOfMemory);
}

}  // namespace triax
