// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "triax/train/memory_report.h"
#include "triax/train/time_shares.h"
#include "triax/train/trainer.h"

namespace triax {

/// What is known of the run before its first step.
struct RunFacts {
  int64_t num_steps = 0;
  int world_size = 1;
  double flops_per_token = 0;
  double recomputed_flops_per_token = 0;
  std::string flops_name;  // the formula's: "causal"
  double peak_flops = 0;   // of all ranks together
  int64_t memory_bytes = 0;
  bool has_loss_scale = false;
};

/// One step with its measurements.
struct StepRecord {
  StepStats stats;
  double seconds = 0;
  std::vector<RankMemory> memory;  // by rank
  std::optional<double> validation_loss;
  std::optional<double> gradient_noise_scale;
  std::optional<TimeShares> shares;
};

/// Writes metrics.jsonl, one object a step, each line whole and at once.
class MetricsFile {
 public:
  /// Throws Error when the file cannot be created.
  MetricsFile(const std::string& path, const RunFacts& facts);
  void write(const StepRecord& record);

 private:
  const RunFacts facts_;
  const std::string path_;
  std::ofstream file_;
  size_t whole_bytes_ = 0;
};

/// The line a person reads at each step.
class StepLine {
 public:
  explicit StepLine(const RunFacts& facts) : facts_(facts) {}

  /// "step 120/2000  loss 3.2441  norm 0.83  lr 2.91e-04  tok/s 7,282 …". With
  /// fp16 the loss scale, and how many steps were skipped, stand behind lr.
  /// Speeds are averages over recent steps, the first step left out.
  std::string text(const StepRecord& record);

 private:
  const RunFacts facts_;
  double mean_seconds_ = 0;
  int64_t num_averaged_ = 0;
};

/// Rewrites one line in place on a terminal; prints whole lines elsewhere.
class ProgressDisplay {
 public:
  /// `is_quiet` drops everything.
  explicit ProgressDisplay(bool is_quiet);
  ~ProgressDisplay();

  /// The step's line, and on a terminal a bar below it.
  void show(const std::string& line, double done);
  /// A line that stays.
  void say(const std::string& line);

 private:
  const bool is_quiet_;
  const bool is_terminal_;
  bool has_bar_ = false;
};

}  // namespace triax
