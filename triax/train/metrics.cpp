// SPDX-License-Identifier: Apache-2.0
#include "triax/train/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "triax/base/error.h"
#include "triax/base/json.h"
#include "triax/base/log.h"
#include "triax/base/units.h"
#include "triax/plan/model_stats.h"

namespace triax {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kSmoothing = 0.95;
constexpr int kBarWidth = 40;

Json to_json(const TimeShares& shares) {
  return {{"compute", shares.compute},
          {"exposed_comm", shares.exposed_comm},
          {"total_comm", shares.total_comm},
          {"bubble", shares.bubble},
          {"data", shares.data},
          {"optimizer", shares.optimizer},
          {"other", shares.other}};
}

/// With what recompute adds: hardware FLOPs utilization.
double hfu(const RunFacts& facts, double tokens_per_second) {
  return model_flops_utilization(
      tokens_per_second,
      facts.flops_per_token + facts.recomputed_flops_per_token,
      facts.peak_flops);
}

/// By rank; empty where no rank offloads.
Json offload_json(const std::vector<RankMemory>& ranks) {
  Json json = Json::object();
  int64_t total = 0;
  for (const RankMemory& rank : ranks) {
    json["file"].push_back(rank.offload.file_bytes);
    json["read"].push_back(rank.offload.moved.read);
    json["written"].push_back(rank.offload.moved.written);
    total += rank.offload.file_bytes;
  }
  return total > 0 ? json : Json::object();
}

/// The bytes of each category at the ranks' peaks, by rank.
Json to_json(const std::vector<RankMemory>& ranks) {
  Json json = Json::object();
  for (const RankMemory& rank : ranks) {
    json["total"].push_back(rank.peak.total());
    for (size_t i = 0; i < kNumMemoryCategories; ++i) {
      json[std::string(kMemoryCategoryNames[i])].push_back(
          rank.peak.by_category[i]);
    }
  }
  return json;
}

/// Of the rank with most.
int64_t most_of(const std::vector<RankMemory>& ranks,
                int64_t RankMemory::*figure) {
  int64_t most = 0;
  for (const RankMemory& rank : ranks) {
    most = std::max(most, rank.*figure);
  }
  return most;
}

/// "  scale 65536", and of a skipped step why nothing was updated.
std::string scale_text(const StepStats& stats) {
  std::string text = fmt::format("  scale {:g}", stats.loss_scale);
  if (stats.is_skipped) {
    text += " overflow: skipped, scale halved";
  }
  if (stats.num_skipped > 0) {
    text += fmt::format(" ({} skipped)", stats.num_skipped);
  }
  return text;
}

double mfu(const RunFacts& facts, double tokens_per_second) {
  return model_flops_utilization(
      tokens_per_second, facts.flops_per_token, facts.peak_flops);
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, const RunFacts& facts)
    : facts_(facts), path_(path), file_(path) {
  if (!file_) {
    throw Error(path, " cannot be written: ", std::strerror(errno));
  }
}

void MetricsFile::write(const StepRecord& record) {
  const StepStats& stats = record.stats;
  const double tokens_per_second =
      static_cast<double>(stats.num_valid_tokens) / record.seconds;
  Json line = {
      {"step", stats.step},
      {"loss", stats.loss},
      {"grad_norm", stats.grad_norm},
      {"lr", stats.lr},
      {"tokens", stats.num_valid_tokens},
      {"tokens_per_second", tokens_per_second},
      {"step_seconds", record.seconds},
      {"mfu", mfu(facts_, tokens_per_second)},
      {"hfu", hfu(facts_, tokens_per_second)},
      {"memory_peak_bytes", most_of(record.memory, &RankMemory::resident_peak)},
      {"on_disk_peak_bytes", most_of(record.memory, &RankMemory::on_disk_peak)},
      {"memory_at_peak", to_json(record.memory)}};
  if (const Json offload = offload_json(record.memory); !offload.empty()) {
    line["offload"] = offload;
  }
  if (facts_.has_loss_scale) {
    line["loss_scale"] = stats.loss_scale;
    line["skipped"] = stats.is_skipped;
    line["num_skipped"] = stats.num_skipped;
  }
  if (record.validation_loss) {
    line["validation_loss"] = *record.validation_loss;
  }
  if (record.gradient_noise_scale) {
    line["gradient_noise_scale"] = *record.gradient_noise_scale;
  }
  if (record.shares) {
    line["shares"] = to_json(*record.shares);
  }
  const std::string text = dump_json(line) + "\n";
  file_ << text << std::flush;
  if (!file_) {
    const int reason = errno;
    // A full disk took a part of the line.
    file_.close();
    std::error_code ignored;
    std::filesystem::resize_file(path_, whole_bytes_, ignored);
    throw Error(path_, " cannot be written: ", std::strerror(reason));
  }
  whole_bytes_ += text.size();
}

std::string StepLine::text(const StepRecord& record) {
  const StepStats& stats = record.stats;
  if (stats.step > 1) {
    // A running mean at first, then an exponential one.
    const double keep = std::min(kSmoothing,
                                 static_cast<double>(num_averaged_) /
                                     static_cast<double>(num_averaged_ + 1));
    mean_seconds_ = keep * mean_seconds_ + (1 - keep) * record.seconds;
    ++num_averaged_;
  }
  const double seconds = num_averaged_ > 0 ? mean_seconds_ : record.seconds;
  const double speed = static_cast<double>(stats.num_valid_tokens) / seconds;
  const double left =
      static_cast<double>(facts_.num_steps - stats.step) * seconds;
  const auto per_rank = static_cast<int64_t>(speed / facts_.world_size);
  return fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}{}  tok/s {} ({}/rank)  "
      "mfu {:.1f}%  mem {:.2f}/{:.1f} GiB  {}  eta {}",
      stats.step,
      facts_.num_steps,
      stats.loss,
      stats.grad_norm,
      stats.lr,
      facts_.has_loss_scale ? scale_text(stats) : "",
      format_count(static_cast<int64_t>(speed)),
      format_count(per_rank),
      100 * mfu(facts_, speed),
      static_cast<double>(most_of(record.memory, &RankMemory::resident_peak)) /
          kGib,
      static_cast<double>(facts_.memory_bytes) / kGib,
      format_duration(record.seconds),
      format_duration(left));
}

ProgressDisplay::ProgressDisplay(bool is_quiet)
    : is_quiet_(is_quiet), is_terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressDisplay::~ProgressDisplay() {
  if (has_bar_) {
    write_whole(STDERR_FILENO, "\n");
  }
}

void ProgressDisplay::show(const std::string& line, double done) {
  if (is_quiet_) {
    return;
  }
  if (!is_terminal_) {
    write_whole(STDERR_FILENO, line + "\n");
    return;
  }
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kBarWidth);
  std::string bar = fmt::format("[{}{}] {:.0f}%",
                                std::string(filled, '#'),
                                std::string(kBarWidth - filled, '.'),
                                100 * done);
  // Clear the bar's line, write the step above it, then the bar again.
  write_whole(STDERR_FILENO, "\r\033[K" + line + "\n" + bar);
  has_bar_ = true;
}

void ProgressDisplay::say(const std::string& line) {
  if (is_quiet_) {
    return;
  }
  write_whole(STDERR_FILENO, (has_bar_ ? "\r\033[K" : "") + line + "\n");
  has_bar_ = false;
}

}  // namespace triax
