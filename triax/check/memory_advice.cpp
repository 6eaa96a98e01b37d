// SPDX-License-Identifier: Apache-2.0
#include "triax/check/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "triax/base/units.h"
#include "triax/check/check.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

constexpr std::array kFactors = {2, 3, 4, 6, 8, 12, 16, 32, 64};
constexpr size_t kMaxLines = 2;

struct Trial {
  RunConfig config;
  std::string setting;
  std::string cost = "";
};

/// Trials of one kind, the cheapest first.
using Kind = std::vector<Trial>;

StageMemory heaviest_of(const RunConfig& config) {
  return heaviest_stage(predict_memory(config));
}

bool is_allowed(RunConfig config) {
  config.memory.limit = 0;  // what is asked here
  LoadedConfig loaded;
  loaded.config = config;
  return !has_errors(check_run(loaded, {.looks_at_files = false}));
}

/// What keeps the global batch, said where it must be written.
void keep_batch(Trial& trial) {
  TrainingConfig& training = trial.config.training;
  const int64_t steps = trial.config.num_microbatches();
  if (training.gradient_accumulation_steps > 0 &&
      training.gradient_accumulation_steps != steps) {
    training.gradient_accumulation_steps = steps;
    trial.setting +=
        fmt::format(" with training.gradient_accumulation_steps = {}", steps);
  }
}

void set_microbatch(Trial& trial, int64_t size) {
  trial.config.training.microbatch_size = size;
  trial.setting += fmt::format("training.microbatch_size = {}", size);
  keep_batch(trial);
}

Kind other_schedule(const RunConfig& config) {
  if (config.parallel.schedule != "gpipe" || config.parallel.pp == 1) {
    return {};
  }
  Trial trial{config, "parallel.schedule = \"1f1b\""};
  trial.config.parallel.schedule = "1f1b";
  return {trial};
}

/// Replicas that split what they keep; each stage sends more.
Kind split_replicas(const RunConfig& config) {
  Kind trials;
  if (config.parallel.dp > 1) {
    for (int stage = config.parallel.zero + 1; stage <= 3; ++stage) {
      Trial trial{config, fmt::format("parallel.zero = {}", stage)};
      trial.config.parallel.zero = stage;
      trials.push_back(trial);
    }
  }
  return trials;
}

Kind split_sequence(const RunConfig& config) {
  if (config.parallel.tp == 1 || config.parallel.sequence_parallel) {
    return {};
  }
  Trial trial{config, "parallel.sequence_parallel = true"};
  trial.config.parallel.sequence_parallel = true;
  return {trial};
}

Kind more_recompute(const RunConfig& config) {
  Kind trials;
  if (config.memory.recompute == Recompute::kNone) {
    Trial trial{config, "memory.recompute = \"selective\""};
    trial.config.memory.recompute = Recompute::kSelective;
    trials.push_back(trial);
  }
  if (config.memory.recompute == Recompute::kNone ||
      config.memory.recompute == Recompute::kSelective) {
    Trial trial{config,
                "memory.recompute = \"full\"",
                "a forward pass of the layers more"};
    trial.config.memory.recompute = Recompute::kFull;
    trials.push_back(trial);
  }
  return trials;
}

/// The optimizer's state on file.
Kind offload_optimizer(const RunConfig& config) {
  if (config.memory.offload == Offload::kNvme) {
    return {};
  }
  Trial trial{config, "memory.offload = \"nvme\""};
  trial.config.memory.offload = Offload::kNvme;
  trial.config.memory.offload_states = {"optimizer"};
  if (config.memory.offload_states != trial.config.memory.offload_states) {
    trial.setting += " and memory.offload_states = [\"optimizer\"]";
  }
  const int64_t nbytes =
      heaviest_stage(predict_memory(trial.config)).disk_bytes();
  trial.cost = fmt::format("{} read from disk and written in each step",
                           format_bytes(nbytes));
  return {trial};
}

Kind smaller_microbatches(const RunConfig& config) {
  Kind trials;
  for (int64_t size = config.training.microbatch_size - 1; size >= 1; --size) {
    if (config.training.microbatch_size % size == 0) {
      set_microbatch(trials.emplace_back(Trial{config, ""}), size);
    }
  }
  return trials;
}

using Degree = int ParallelConfig::*;

struct MoreOfAnAxis {
  Degree degree;
  bool takes_from_dp = false;
  bool has_microbatch_of_one = false;
};

/// A longer tp or pp; empty where dp cannot give the ranks.
std::optional<Trial> longer_axis(const RunConfig& config,
                                 const MoreOfAnAxis& more,
                                 int factor) {
  Trial trial{config, ""};
  ParallelConfig& parallel = trial.config.parallel;
  if (more.takes_from_dp && parallel.dp % factor != 0) {
    return std::nullopt;
  }
  parallel.*more.degree *= factor;
  trial.setting = fmt::format("parallel.{} = {}",
                              more.degree == &ParallelConfig::tp ? "tp" : "pp",
                              parallel.*more.degree);
  if (more.takes_from_dp) {
    parallel.dp /= factor;
    trial.setting += fmt::format(" and parallel.dp = {}", parallel.dp);
  }
  if (more.has_microbatch_of_one) {
    trial.setting += " and ";
    set_microbatch(trial, 1);
  } else if (more.takes_from_dp) {
    keep_batch(trial);
  }
  if (!more.takes_from_dp) {
    trial.cost = fmt::format("{} ranks instead of {}",
                             trial.config.world_size(),
                             config.world_size());
  }
  return trial;
}

Kind longer_axes(const RunConfig& config, const MoreOfAnAxis& more) {
  Kind trials;
  for (const int factor : kFactors) {
    if (const auto trial = longer_axis(config, more, factor)) {
      trials.push_back(*trial);
    }
  }
  return trials;
}

/// The kinds, the cheapest first.
std::vector<Kind> kinds_of_change(const RunConfig& config) {
  std::vector<Kind> kinds = {other_schedule(config),
                             split_replicas(config),
                             split_sequence(config),
                             smaller_microbatches(config),
                             more_recompute(config),
                             offload_optimizer(config)};
  for (const bool has_microbatch_of_one : {false, true}) {
    if (has_microbatch_of_one && config.training.microbatch_size == 1) {
      continue;
    }
    for (const bool takes_from_dp : {true, false}) {
      for (const Degree degree : {&ParallelConfig::tp, &ParallelConfig::pp}) {
        kinds.push_back(
            longer_axes(config,
                        {.degree = degree,
                         .takes_from_dp = takes_from_dp,
                         .has_microbatch_of_one = has_microbatch_of_one}));
      }
    }
  }
  return kinds;
}

/// The lines that shrink most.
std::string arithmetic(const StageMemory& before, const StageMemory& after) {
  struct Change {
    const MemoryLine* before;
    int64_t after;
    int64_t saved() const { return before->nbytes - after; }
  };
  std::vector<Change> changes;
  for (const MemoryLine& line : before.lines) {
    const Change change{&line, after.bytes_of(line.kind)};
    if (change.saved() > 0) {
      changes.push_back(change);
    }
  }
  std::stable_sort(
      changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return a.saved() > b.saved();
      });
  std::string text;
  for (size_t i = 0; i < std::min(kMaxLines, changes.size()); ++i) {
    text += fmt::format("{}{} {} instead of {}",
                        i == 0 ? "" : ", ",
                        kind_name(changes[i].before->kind),
                        format_bytes(changes[i].after),
                        format_bytes(changes[i].before->nbytes));
  }
  return text;
}

std::string to_text(const MemoryChange& change) {
  return fmt::format("{} ({}{}{}: {})",
                     change.setting,
                     change.cost,
                     change.cost.empty() ? "" : ", ",
                     format_bytes(change.nbytes),
                     change.arithmetic);
}

/// Without arithmetic: refused, or it saves nothing.
MemoryChange judge(const Trial& trial,
                   const StageMemory& now,
                   const MemoryAdviceOptions& options) {
  if (!is_allowed(trial.config)) {
    return {};
  }
  const StageMemory then = heaviest_of(trial.config);
  if (then.total_bytes() >= now.total_bytes()) {
    return {};
  }
  return {.setting = trial.setting,
          .cost = trial.cost,
          .nbytes = then.total_bytes() + options.unpredicted_bytes,
          .arithmetic = arithmetic(now, then),
          .num_ranks = trial.config.world_size()};
}

}  // namespace

int64_t heaviest_rank_bytes(const RunConfig& config) {
  return heaviest_of(config).total_bytes();
}

MemoryAdvice advise_on_memory(const RunConfig& config,
                              const MemoryAdviceOptions& options) {
  const StageMemory now = heaviest_of(config);
  MemoryAdvice advice;
  std::optional<MemoryChange> nearest;
  for (const Kind& kind : kinds_of_change(config)) {
    for (const Trial& trial : kind) {
      const MemoryChange change = judge(trial, now, options);
      if (change.arithmetic.empty()) {
        continue;
      }
      if (!nearest || change.nbytes < nearest->nbytes) {
        nearest = change;
      }
      if (change.nbytes <= options.limit_bytes) {
        advice.fitting.push_back(change);
        break;
      }
    }
  }
  std::stable_sort(advice.fitting.begin(),
                   advice.fitting.end(),
                   [](const MemoryChange& a, const MemoryChange& b) {
                     return a.num_ranks < b.num_ranks;
                   });
  if (advice.fitting.size() > options.max_changes) {
    advice.fitting.resize(options.max_changes);
  }
  if (advice.fitting.empty() && nearest) {
    advice.nearest.push_back(*nearest);
  }
  return advice;
}

std::string to_text(const MemoryAdvice& advice) {
  std::string text;
  for (const MemoryChange& change : advice.fitting) {
    text += (text.empty() ? "it would fit with " : ", or with ");
    text += to_text(change);
  }
  if (!text.empty()) {
    return text;
  }
  text =
      "no schedule, zero, recompute, offload, microbatch, tp or pp makes it "
      "fit; use a smaller model or data.sequence_length";
  if (!advice.nearest.empty()) {
    text += ", the nearest is " + to_text(advice.nearest.front());
  }
  return text;
}

}  // namespace triax
