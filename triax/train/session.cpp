// SPDX-License-Identifier: Apache-2.0
#include "triax/train/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/log.h"
#include "triax/base/machine.h"
#include "triax/base/units.h"
#include "triax/comm/fork_ranks.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/model_stats.h"
#include "triax/train/divergence.h"
#include "triax/train/generate.h"
#include "triax/train/matmul_timer.h"
#include "triax/train/memory_report.h"
#include "triax/train/metrics.h"
#include "triax/train/time_shares.h"
#include "triax/train/trainer.h"
#include "triax/train/verify.h"

namespace triax {
namespace {

constexpr int64_t kSharesEvery = 10;
constexpr int64_t kSampleBytes = 240;
constexpr int64_t kNumBytes = 256;  // ids of text

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Ranks on one machine share its cores.
void share_cores(int world_size) {
  at::set_num_threads(std::max(1, num_cores() / world_size));
}

at::ScalarType matmul_type(Precision precision) {
  return precision == Precision::kBf16Autocast
             ? at::kBFloat16
             : to_scalar_type(parameter_dtype(precision));
}

/// Makes the groups' links as slow as the config wants them.
void emulate_links(const CommConfig& config, DeviceMesh& mesh, uint64_t seed) {
  for (Axis axis : {Axis::kTp, Axis::kPp, Axis::kDp}) {
    const auto link = config.emulate.find(std::string(axis_name(axis)));
    if (link != config.emulate.end()) {
      mesh.group(axis).emulate(
          {.latency_seconds = link->second.latency_seconds,
           .bytes_per_second = link->second.bytes_per_second,
           .jitter = link->second.jitter,
           .seed = seed});
    }
  }
}

/// Bytes that are no printable ASCII as \xNN: a byte model may write any.
std::string as_ascii(const std::string& text) {
  std::string shown;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_shown = byte >= 0x20 && byte < 0x7f;
    shown += is_shown ? std::string(1, letter) : fmt::format("\\x{:02x}", byte);
  }
  return shown;
}

/// One run, from the first line to the sample.
class Session {
 public:
  Session(const RunConfig& config,
          const std::shared_ptr<Board>& board,
          std::unique_ptr<Group> world,
          const SessionOptions& options)
      : config_(config),
        board_(board),
        options_(options),
        mesh_(make_parallel_dims(config.parallel), std::move(world)),
        recorder_(board, mesh_.rank()),
        display_(options.is_quiet || mesh_.rank() != 0) {
    board_->set_coord(mesh_.rank(), to_text(mesh_.coord()));
    this_rank_memory().set_limit(config_.memory.limit);
    emulate_links(
        config_.comm, mesh_, static_cast<uint64_t>(config_.training.seed));
  }

  int run() {
    try {
      return run_all();
    } catch (const OutOfMemory& error) {
      throw Error(failure_text(error));
    }
  }

 private:
  int run_all() {
    const Clock::time_point start = Clock::now();
    Trainer trainer(config_,
                    mesh_,
                    recorder_,
                    {.broken = Break::kNone,
                     .on_failure = [this](const std::exception& error) {
                       board_->fail(mesh_.rank(), failure_text(error));
                     }});
    facts_ = gather_facts();
    // The products that measured the machine are no part of the training.
    this_rank_memory().reset_peak();
    say_facts(trainer);
    train(trainer);
    if (!is_stopped_) {
      say_sample(trainer);
    }
    display_.say(fmt::format("{} in {}; {}/metrics.jsonl",
                             counted(trainer.steps_done(), "step"),
                             format_duration(seconds_since(start)),
                             options_.run_dir));
    return is_stopped_ ? 130 : 0;
  }

  std::string failure_text(const std::exception& error) const {
    const auto* memory = dynamic_cast<const OutOfMemory*>(&error);
    return memory == nullptr
               ? error.what()
               : out_of_memory_text(config_, mesh_.rank(), memory->request());
  }

  RunFacts gather_facts() {
    RunFacts facts;
    facts.num_steps = config_.training.steps;
    facts.world_size = mesh_.dims().world_size();
    facts.flops_per_token = flops_per_token(
        config_.model, config_.data.sequence_length, FlopsKind::kCausal);
    facts.recomputed_flops_per_token =
        recomputed_flops_per_token(config_, FlopsKind::kCausal);
    facts.flops_name = flops_formula(FlopsKind::kCausal);
    facts.peak_flops = measure_peak();
    facts.memory_bytes = machine_memory_bytes();
    facts.has_loss_scale = config_.training.precision == Precision::kFp16;
    return facts;
  }

  /// FLOP/s of all ranks together while all multiply: ranks may share cores.
  double measure_peak() {
    constexpr int kRounds = 4;
    // What this holds is no part of the training.
    this_rank_memory().set_limit(0);
    const MatmulTimer timer(matmul_type(config_.training.precision));
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
      mesh_.world().barrier();
      const double slowest = max_over(mesh_.world(), timer.seconds());
      best = std::max(best, mesh_.world().size() * timer.flops() / slowest);
    }
    this_rank_memory().set_limit(config_.memory.limit);
    return best;
  }

  void say_facts(const Trainer& trainer) {
    const ParallelDims& dims = mesh_.dims();
    display_.say(
        fmt::format("mesh dp {} × pp {} × tp {} = {} ({}), threads "
                    "of a rank: {}",
                    dims.dp,
                    dims.pp,
                    dims.tp,
                    counted(dims.world_size(), "rank"),
                    plan_name(config_.parallel),
                    at::get_num_threads()));
    display_.say(fmt::format(
        "model {} parameters; {} tokens a step, num_microbatches {}, "
        "microbatch_size {}",
        format_count(num_parameters(config_.model)),
        format_count(config_.training.global_batch_size *
                     config_.data.sequence_length),
        config_.num_microbatches(),
        config_.training.microbatch_size));
    display_.say(
        fmt::format("mfu by {} of {:.1f} GFLOP/s, measured by {} matrix "
                    "products on all ranks at once",
                    facts_.flops_name,
                    facts_.peak_flops / 1e9,
                    c10::toString(matmul_type(config_.training.precision))));
    say_memory(trainer);
    if (const auto notice = trainer.loader().sampler().notice()) {
      display_.say(*notice);
    }
  }

  void say_memory(const Trainer& trainer) {
    const std::vector<StageMemory> stages = predict_memory(config_);
    display_.say(fmt::format(
        "rank 0 predicted {}; allocated for parameters {}, for gradients {}, "
        "for the optimizer {}",
        format_bytes(stages[mesh_.coord().pp].total_bytes()),
        format_bytes(trainer.trained().parameter_bytes()),
        format_bytes(trainer.trained().gradient_bytes()),
        format_bytes(trainer.trained().optimizer_memory_bytes())));
    if (const OffloadedShard* shard = trainer.trained().offloaded()) {
      say_file(format_bytes(shard->nbytes()), shard->arrays().file());
    }
    if (const ActivationFile* file = trainer.activation_file()) {
      say_file("activations of at most " + format_bytes(file->file_bytes()),
               file->file());
    }
  }

  void say_file(const std::string& what, const SpillFile& file) {
    display_.say(fmt::format(
        "rank 0 offloads {} to {} ({}, {})",
        what,
        offload_folder(config_),
        file.is_direct() ? "past the page cache" : "through the page cache",
        file.engine_name()));
  }

  void train(Trainer& trainer) {
    std::optional<MetricsFile> metrics;
    if (mesh_.rank() == 0) {
      metrics.emplace(options_.run_dir + "/metrics.jsonl", facts_);
    }
    StepLine line(facts_);
    TimeAccount account(*board_, recorder_);
    while (trainer.steps_done() < config_.training.steps) {
      const StepRecord record = one_step(trainer, account);
      if (metrics) {
        metrics->write(record);
      }
      show(record, line);
      if (options_.on_step) {
        options_.on_step(trainer);
      }
      if (agree_to_stop()) {
        if (mesh_.rank() == 0) {
          log_warning("stopped on request after step ",
                      trainer.steps_done(),
                      "; no state was saved");
        }
        is_stopped_ = true;
        return;
      }
    }
  }

  StepRecord one_step(Trainer& trainer, TimeAccount& account) {
    board_->set_step(mesh_.rank(), trainer.steps_done() + 1);
    const Clock::time_point start = Clock::now();
    StepRecord record;
    record.stats = trainer.step();
    record.seconds = seconds_since(start);
    record.gradient_noise_scale = trainer.gradient_noise_scale();
    account.add();
    if (record.stats.step % kSharesEvery == 0) {
      record.shares = account.take(mesh_);
    }
    if (is_validation_step(trainer)) {
      record.validation_loss = trainer.validate();
    }
    record.memory = gather_memory(mesh_.world(), trainer.offload_use());
    return record;
  }

  bool is_validation_step(const Trainer& trainer) const {
    const int64_t every = config_.training.validate_every;
    const int64_t step = trainer.steps_done();
    return trainer.has_validation() && every > 0 &&
           (step % every == 0 || step == config_.training.steps);
  }

  void show(const StepRecord& record, StepLine& line) {
    const double done = static_cast<double>(record.stats.step) /
                        static_cast<double>(facts_.num_steps);
    display_.show(line.text(record), done);
    losses_.add(record.stats.loss);
    if (record.stats.step == 1) {
      display_.say("  " + peak_text(config_, record.memory));
    }
    if (record.shares) {
      display_.say("  " + to_string(*record.shares));
    }
    if (record.validation_loss) {
      display_.say(
          fmt::format("  validation loss {:.4f}", *record.validation_loss));
    }
    const bool is_last = record.stats.step == facts_.num_steps;
    if (is_last && record.gradient_noise_scale) {
      display_.say("  " + batch_advice(*record.gradient_noise_scale,
                                       static_cast<double>(
                                           config_.training.global_batch_size),
                                       losses_));
    }
  }

  bool agree_to_stop() {
    return max_over(mesh_.world(), stop_requested() ? 1.0 : 0.0) > 0;
  }

  void say_sample(Trainer& trainer) {
    if (!trainer.loader().file().is_text() ||
        config_.model.vocab_size < kNumBytes) {
      return;
    }
    const std::string prompt = "And ";
    const std::vector<int64_t> tokens =
        generate(config_,
                 mesh_,
                 recorder_,
                 trainer.rank_model(),
                 {.prompt = {prompt.begin(), prompt.end()},
                  .num_tokens = kSampleBytes,
                  .num_ids = kNumBytes,
                  .temperature = 0.7,
                  .seed = static_cast<uint64_t>(config_.training.seed),
                  .run_pass = [&](const std::function<void()>& call) {
                    trainer.forward_pass(call);
                  }});
    std::string text;
    for (int64_t token : tokens) {
      text += static_cast<char>(token);
    }
    display_.say("sample: " + as_ascii(text));
    if (mesh_.rank() == 0) {
      write_file_atomically(options_.run_dir + "/sample.txt", text + "\n");
    }
  }

  const RunConfig config_;
  const std::shared_ptr<Board> board_;
  const SessionOptions options_;
  DeviceMesh mesh_;
  Recorder recorder_;
  ProgressDisplay display_;
  RunFacts facts_;
  LossRecord losses_;
  bool is_stopped_ = false;
};

}  // namespace

int run_training(const RunConfig& config,
                 const std::shared_ptr<Board>& board,
                 std::unique_ptr<Group> world,
                 const SessionOptions& options) {
  share_cores(world->size());
  return Session(config, board, std::move(world), options).run();
}

int run_verify(const RunConfig& config,
               const std::shared_ptr<Board>& board,
               std::unique_ptr<Group> world,
               const VerifySessionOptions& options) {
  at::set_num_threads(1);
  VerifyOptions verify_options{.num_steps = options.num_steps,
                               .is_stop_requested = stop_requested};
  if (!options.break_name.empty()) {
    verify_options.broken = parse_break(options.break_name, config);
  }
  DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
  board->set_coord(mesh.rank(), to_text(mesh.coord()));
  emulate_links(config.comm, mesh, static_cast<uint64_t>(config.training.seed));
  const VerifyReport report = verify(config, mesh, board, verify_options);
  if (report.is_stopped) {
    if (mesh.rank() == 0) {
      log_warning("stopped on request; nothing is said of the layout");
    }
    return 130;
  }
  if (mesh.rank() != 0) {
    return 0;
  }
  std::cout << (options.is_json ? to_json_text(report) + "\n" : to_text(report))
            << std::flush;
  if (!std::cout) {
    throw Error("stdout could not be written: the report is lost");
  }
  return report.is_equal() ? 0 : 1;
}

}  // namespace triax
