// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/rounding.h"
#include "triax/base/saturating.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/torchtitan_rules.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

constexpr const char* kSchedule = "parallelism.pipeline_parallel_schedule";
constexpr const char* kPerStage =
    "parallelism.pipeline_parallel_layers_per_stage";
constexpr const char* kMicrobatch =
    "parallelism.pipeline_parallel_microbatch_size";
constexpr const char* kParts = "parallelism.module_fqns_per_model_part";
constexpr const char* kDegree = "parallelism.pipeline_parallel_degree";
constexpr const char* kFirst =
    "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr const char* kLast =
    "parallelism.pipeline_parallel_last_stage_less_layers";

struct Pipeline {
  int64_t pp = 1;
  int64_t stages = 0;  // of all ranks; 0: unknown
  const TorchTitanSchedule* schedule = nullptr;
};

void refuse(ForeignFindings& findings,
            const std::string& rule,
            const std::string& path,
            const std::string& message,
            const std::string& fix) {
  findings.error(rule, path, message, fix, Effect::kFailsLater);
}

// train.py: "Pipeline Parallel is enabled but … does not support pipelining".
void check_support(ForeignFindings& findings) {
  const std::string name = torchtitan_word(findings.config, "model.name");
  if (name == "qwen3" || name == "gpt_oss" || name == "flux") {
    refuse(findings,
           "refused-combination",
           kDegree,
           fmt::format("{} has no pipeline in 0.2.2", name),
           "use 1");
  }
}

// build_pipeline_schedule: the local batch, cut into microbatches.
int64_t count_microbatches(ForeignFindings& findings) {
  const int64_t local =
      torchtitan_whole(findings.config, "training.local_batch_size");
  const int64_t size = torchtitan_whole(findings.config, kMicrobatch);
  if (local < 1 || size < 1) {
    return 0;
  }
  if (local % size != 0) {
    refuse(findings,
           "batch-triangle",
           kMicrobatch,
           fmt::format("training.local_batch_size {} is not a multiple of it",
                       local),
           fmt::format("use a divisor of {}", local));
    return 0;
  }
  return local / size;
}

// pipeline_llm: how many stages layers_per_stage makes, and whether the
// schedule takes them.
int64_t stages_of_layers(ForeignFindings& findings, const Pipeline& pipeline) {
  const int64_t per_stage = torchtitan_whole(findings.config, kPerStage);
  const int64_t layers = findings.facts.layers.value_or(0);
  if (per_stage < 1 || layers < 1) {
    return 0;
  }
  const int64_t weight = saturating_add(
      saturating_add(layers, torchtitan_whole(findings.config, kFirst)),
      torchtitan_whole(findings.config, kLast));
  const int64_t stages = divide_up(weight, per_stage);
  const std::string count = fmt::format(
      "{} layers and embedding and output / {} make {} stages for {} ranks",
      layers,
      per_stage,
      stages,
      pipeline.pp);
  const int64_t of_rank = stages / pipeline.pp;
  const bool is_multi = pipeline.schedule->is_multi;
  if (stages % pipeline.pp != 0) {
    refuse(findings,
           "stages-fit",
           kPerStage,
           count + ", which does not divide",
           fmt::format("use {} for {} stages",
                       divide_up(weight, pipeline.pp),
                       pipeline.pp));
    return 0;
  }
  if (is_multi ? of_rank < 2 : of_rank != 1) {
    refuse(findings,
           "stages-fit",
           kPerStage,
           fmt::format("{}: {} on each, where {} takes {}",
                       count,
                       of_rank,
                       pipeline.schedule->name,
                       is_multi ? "two or more" : "one"),
           is_multi ? "use fewer layers a stage, or 1F1B"
                    : "use more layers a stage, or Interleaved1F1B");
    return 0;
  }
  return stages;
}

// pipeline_module_split: the parts that are listed.
int64_t stages_of_parts(ForeignFindings& findings, const Pipeline& pipeline) {
  const ConfigValue* value = findings.value(kParts);
  const auto* parts = std::get_if<ConfigArray>(&value->data);
  if (parts == nullptr) {
    return 0;
  }
  const auto stages = static_cast<int64_t>(parts->size());
  if (stages == 0 || stages % pipeline.pp != 0) {
    refuse(
        findings,
        "stages-fit",
        kParts,
        fmt::format("{} parts do not split over {} ranks", stages, pipeline.pp),
        fmt::format("list a multiple of {} parts", pipeline.pp));
    return 0;
  }
  return stages;
}

// The layers that each rank's parts name.
void note_slowest_of_parts(ForeignFindings& findings, int64_t pp) {
  const ConfigValue* value = findings.value(kParts);
  const auto* parts =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  if (parts == nullptr || pp < 2 ||
      parts->size() % static_cast<size_t>(pp) != 0) {
    return;
  }
  std::vector<int64_t> layers(static_cast<size_t>(pp));
  for (size_t i = 0; i < parts->size(); ++i) {
    const auto* names = std::get_if<ConfigArray>(&(*parts)[i].data);
    for (const ConfigValue& name : names == nullptr ? ConfigArray{} : *names) {
      const auto* text = std::get_if<std::string>(&name.data);
      const bool is_layer = text != nullptr && text->starts_with("layers.");
      layers[i % layers.size()] += is_layer ? 1 : 0;
    }
  }
  note_slowest_stage(findings, kParts, layers);
}

// One stage a rank; embedding and output count as `first` and `last` layers.
void note_slowest_of_split(ForeignFindings& findings,
                           int64_t stages,
                           int64_t weight) {
  if (stages != findings.facts.pp.value_or(1) || weight > (1 << 20)) {
    return;
  }
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < stages; ++i) {
    layers.push_back(weight / stages + (i < weight % stages ? 1 : 0));
  }
  layers.front() -= torchtitan_whole(findings.config, kFirst);
  layers.back() -= torchtitan_whole(findings.config, kLast);
  note_slowest_stage(findings, kDegree, layers);
}

// generate_llm_fqn_per_model_part.
void check_layers(ForeignFindings& findings, int64_t stages) {
  const int64_t layers = findings.facts.layers.value_or(0);
  const int64_t first = torchtitan_whole(findings.config, kFirst);
  const int64_t last = torchtitan_whole(findings.config, kLast);
  if (layers < 1 || stages < 2 || findings.is_set(kParts)) {
    return;
  }
  const int64_t weight = saturating_add(saturating_add(layers, first), last);
  const int64_t per_stage = weight / stages;
  if (per_stage < 1) {
    refuse(findings,
           "layers-fewer-than-stages",
           kDegree,
           fmt::format("{} layers, embedding and output as {} and {} more, "
                       "cannot fill {} stages",
                       layers,
                       first,
                       last,
                       stages),
           fmt::format("use at most {} stages", weight));
  } else if (first > per_stage || last > per_stage) {
    refuse(findings,
           "stages-fit",
           first > per_stage ? kFirst : kLast,
           fmt::format("{} is more than the {} layers of a stage",
                       std::max(first, last),
                       per_stage),
           fmt::format("use at most {}", per_stage));
  } else {
    note_slowest_of_split(findings, stages, weight);
  }
}

void check_microbatches(ForeignFindings& findings,
                        const Pipeline& pipeline,
                        int64_t count) {
  if (count < 1 || pipeline.schedule == nullptr) {
    return;
  }
  const auto& schedule = *pipeline.schedule;
  const int64_t rounds = std::max<int64_t>(1, count / pipeline.pp);
  const int64_t size = torchtitan_whole(findings.config, kMicrobatch);
  if (schedule.needs_full && pipeline.stages > 0 && count < pipeline.stages) {
    refuse(findings,
           "few-microbatches",
           "training.local_batch_size",
           fmt::format("{} / microbatch {} = {} microbatches are fewer than "
                       "the {} stages of {}",
                       count * size,
                       size,
                       count,
                       pipeline.stages,
                       schedule.name),
           fmt::format("use {} or more", pipeline.stages * size));
  } else if (schedule.has_rounds && count % rounds != 0) {
    refuse(findings,
           "refused-combination",
           "training.local_batch_size",
           fmt::format("{} takes {} microbatches in {} rounds of pp {}, and "
                       "they do not split",
                       schedule.name,
                       count,
                       rounds,
                       pipeline.pp),
           fmt::format("use {}", count / pipeline.pp * pipeline.pp * size));
  }
}

// get_dual_pipe_v_flag.
void check_dual_pipe(ForeignFindings& findings, const Pipeline& pipeline) {
  const std::string key = "activation_checkpoint.mode";
  const TorchTitanModel* model = torchtitan_model(findings.config);
  if (pipeline.schedule->name == "DualPipeV" &&
      findings.facts.ep.value_or(1) > 1 &&
      (model == nullptr || model->experts > 0) &&
      torchtitan_flag(findings.config,
                      "parallelism.pipeline_parallel_expert_parallel_"
                      "overlap") &&
      torchtitan_word(findings.config, key) != "none") {
    refuse(findings,
           "refused-combination",
           key,
           "DualPipeV with expert parallelism takes no activation "
           "checkpointing",
           "use \"none\", or another schedule");
  }
}

void check_stages(ForeignFindings& findings, Pipeline& pipeline) {
  if (findings.is_set(kPerStage)) {
    pipeline.stages = stages_of_layers(findings, pipeline);
  } else {
    pipeline.stages = pipeline.pp * (pipeline.schedule->is_multi ? 2 : 1);
  }
  if (findings.is_set(kParts)) {
    pipeline.stages = stages_of_parts(findings, pipeline);
    if (!pipeline.schedule->is_v) {
      note_slowest_of_parts(findings, pipeline.pp);
    }
  }
  if (pipeline.schedule->is_v && pipeline.stages > 0 &&
      pipeline.stages != 2 * pipeline.pp) {
    refuse(findings,
           "stages-fit",
           kSchedule,
           fmt::format("{} takes two stages on a rank, and {} stages on {} "
                       "ranks are not that",
                       pipeline.schedule->name,
                       pipeline.stages,
                       pipeline.pp),
           fmt::format("make {} stages", 2 * pipeline.pp));
    pipeline.stages = 0;
  }
  check_layers(findings, pipeline.stages);
}

}  // namespace

void check_torchtitan_pipeline(ForeignFindings& findings) {
  Pipeline pipeline;
  pipeline.pp = findings.facts.pp.value_or(1);
  if (pipeline.pp <= 1 || pipeline.pp > (1 << 20)) {
    return;
  }
  check_support(findings);
  const int64_t count = count_microbatches(findings);
  const std::string name = torchtitan_word(findings.config, kSchedule);
  pipeline.schedule = torchtitan_schedule(name);
  if (pipeline.schedule == nullptr) {
    const bool has_file =
        !torchtitan_word(findings.config,
                         "parallelism.pipeline_parallel_schedule_csv")
             .empty();
    if (!has_file && name != "PipelineScheduleSingle" &&
        name != "PipelineScheduleMulti") {
      refuse(findings,
             "unknown-value",
             kSchedule,
             fmt::format("there is no schedule {}", in_quotes(name)),
             "use " + torchtitan_schedule_names());
    }
    return;
  }
  check_stages(findings, pipeline);
  check_microbatches(findings, pipeline, count);
  check_dual_pipe(findings, pipeline);
}

}  // namespace triax
