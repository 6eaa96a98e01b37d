// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <vector>

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
      "{}: mesh dp {} × pp {} × tp {} = {}; {} parameters; {} of {} ({} "
      "tokens) in {} of {}\n",
      plan_name(config.parallel),
      dims.dp,
      dims.pp,
      dims.tp,
      counted(dims.world_size(), "rank"),
      format_count(num_parameters(config.model)),
      counted(config.training.steps, "step"),
      counted(sequences, "sequence"),
      format_count(sequences * config.data.sequence_length),
      counted(config.num_microbatches(), "microbatch"),
      config.training.microbatch_size);
}

std::string schedule_text(const RunConfig& config) {
  const int num_microbatches = static_cast<int>(config.num_microbatches());
  const auto actions = make_schedule(
      config.parallel.schedule, config.parallel.pp, num_microbatches);
  const ScheduleProof proof = prove_schedule(actions, num_microbatches);
  return fmt::format(
      "schedule {}: proved; bubble {:.1f}% of a step with equal stages; links "
      "buffer {}\n",
      config.parallel.schedule,
      100 * simulate(actions, {}).bubble,
      counted(proof.least_link_depth, "message"));
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

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// "blocks.3.feed_forward.up.weight" of any layer.
std::string name_in_any_layer(const std::string& name) {
  const std::string blocks = "blocks.";
  const size_t dot = name.find('.', blocks.size());
  return name.starts_with(blocks) ? blocks + "*" + name.substr(dot) : name;
}

// One row for each parameter, where all layers count as one.
std::string shapes_text(const RunConfig& config) {
  const auto parts = split_stages(config.model, config.parallel);
  std::vector<std::string> names;
  std::map<std::string, std::string> shapes;
  std::map<std::string, std::set<size_t>> stages;
  for (size_t stage = 0; stage < parts.size(); ++stage) {
    for (const ParameterLayout& layout :
         parameter_layouts(config.model, parts[stage], config.parallel.tp, 0)) {
      const std::string name = name_in_any_layer(layout.name);
      if (shapes.emplace(name, shape_text(layout.shape)).second) {
        names.push_back(name);
      }
      stages[name].insert(stage);
    }
  }
  std::string text = "shapes on a rank\n";
  for (const std::string& name : names) {
    const std::string place =
        name.starts_with("blocks.")
            ? "each layer"
            : fmt::format("stage {}", fmt::join(stages[name], " and "));
    text += fmt::format("{:<38} {:<16} {}\n", name, shapes[name], place);
  }
  const int64_t sequence =
      config.data.sequence_length / config.sequence_shares();
  text += fmt::format("{:<38} {:<16} between stages and layers\n",
                      "activation",
                      shape_text({config.training.microbatch_size,
                                  sequence,
                                  config.model.hidden_size}));
  text += fmt::format(
      "{:<38} {:<16} last stage\n",
      "logits",
      shape_text({config.training.microbatch_size,
                  config.data.sequence_length,
                  vocab_range(config.model.vocab_size, config.parallel.tp, 0)
                      .num_stored}));
  return text;
}

}  // namespace

std::string dry_run_text(const RunConfig& config) {
  return batch_text(config) + schedule_text(config) + stage_text(config) +
         "\n" + shapes_text(config) + "\n" +
         memory_table(predict_memory(config));
}

}  // namespace triax
