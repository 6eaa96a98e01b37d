// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.h"

#include <fmt/format.h>

#include "triax/base/units.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/model_stats.h"
#include "triax/plan/parallel_dims.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"
#include "triax/schedule/proof.h"
#include "triax/schedule/schedule.h"
#include "triax/schedule/simulate.h"

namespace triax {
namespace {

std::string batch_text(const RunConfig& config) {
  const ParallelDims dims = make_parallel_dims(config.parallel);
  const int64_t sequences = config.training.global_batch_size;
  return fmt::format(
      "{}: mesh dp {} × pp {} × tp {} = {} ranks; {} parameters; {} steps of "
      "{} sequences ({} tokens) in {} microbatches of {}\n",
      plan_name(config.parallel),
      dims.dp,
      dims.pp,
      dims.tp,
      dims.world_size(),
      format_count(num_parameters(config.model)),
      config.training.steps,
      sequences,
      format_count(sequences * config.data.sequence_length),
      config.num_microbatches(),
      config.training.microbatch_size);
}

std::string schedule_text(const RunConfig& config) {
  const int num_microbatches = static_cast<int>(config.num_microbatches());
  const auto actions = make_schedule(
      config.parallel.schedule, config.parallel.pp, num_microbatches);
  const ScheduleProof proof = prove_schedule(actions, num_microbatches);
  return fmt::format(
      "schedule {}: proved; bubble {:.1f}% of a step with equal stages; links "
      "buffer {} messages\n",
      config.parallel.schedule,
      100 * simulate(actions, {}).bubble,
      proof.least_link_depth);
}

std::string stage_text(const RunConfig& config) {
  const auto parts = split_stages(config.model, config.parallel);
  std::string text;
  for (size_t stage = 0; stage < parts.size(); ++stage) {
    const ModelPart& part = parts[stage];
    const StoredCount count = count_stored(
        parameter_layouts(config.model, part, config.parallel.tp, 0));
    text += fmt::format(
        "stage {}: layers {} to {}{}{}; {} parameters a rank, {} of them "
        "padding\n",
        stage,
        part.first_layer,
        part.first_layer + part.num_layers - 1,
        part.has_embedding ? ", embedding" : "",
        part.has_head ? ", head" : "",
        format_count(count.num_stored),
        format_count(count.num_padding));
  }
  return text;
}

}  // namespace

std::string dry_run_text(const RunConfig& config) {
  return batch_text(config) + schedule_text(config) + stage_text(config) +
         "\n" + memory_table(predict_memory(config));
}

}  // namespace triax
