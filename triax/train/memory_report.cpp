// SPDX-License-Identifier: Apache-2.0
#include "triax/train/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "triax/base/process_memory.h"
#include "triax/base/units.h"
#include "triax/check/memory_advice.h"
#include "triax/memory/tracker.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

/// Before the categories: VmHWM, the file, what was read and written,
/// activations on disk.
constexpr size_t kFirst = 5;
constexpr size_t kWords = kFirst + kNumMemoryCategories;

int64_t predicted_bytes(const RunConfig& config, int rank) {
  const Coord coord = make_parallel_dims(config.parallel).coord(rank);
  return predict_memory(config)[coord.pp].total_bytes();
}

std::string rank_text(const RunConfig& config, int rank) {
  return fmt::format("rank {} ({})",
                     rank,
                     to_text(make_parallel_dims(config.parallel).coord(rank)));
}

}  // namespace

std::vector<RankMemory> gather_memory(Group& world, const OffloadUse& offload) {
  const ProcessMemory process = process_memory();
  this_rank_memory().set_shared_bytes(process.shared);
  const MemoryUse use = this_rank_memory().use();
  std::array<int64_t, kWords> mine = {process.peak,
                                      offload.file_bytes,
                                      offload.moved.read,
                                      offload.moved.written,
                                      use.largest_on_disk};
  std::copy(use.peak.by_category.begin(),
            use.peak.by_category.end(),
            mine.begin() + kFirst);
  std::vector<int64_t> all(kWords * world.size());
  world.all_gather(
      {mine.data(), int64_t{kWords}, DType::kInt64},
      {all.data(), static_cast<int64_t>(all.size()), DType::kInt64});
  std::vector<RankMemory> ranks(world.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto first = all.begin() + static_cast<int64_t>(rank * kWords);
    ranks[rank].resident_peak = first[0];
    ranks[rank].offload = {first[1], {.read = first[2], .written = first[3]}};
    std::copy_n(first + kFirst,
                kNumMemoryCategories,
                ranks[rank].peak.by_category.begin());
    ranks[rank].on_disk_peak = first[4];
  }
  return ranks;
}

std::string peak_text(const RunConfig& config,
                      const std::vector<RankMemory>& ranks) {
  const auto most = std::max_element(
      ranks.begin(), ranks.end(), [](const RankMemory& a, const RankMemory& b) {
        return a.peak.total() < b.peak.total();
      });
  const int rank = static_cast<int>(most - ranks.begin());
  std::string text = fmt::format(
      "memory of {}, the one with most: {} at its peak, "
      "predicted {} and communication; {}",
      rank_text(config, rank),
      format_bytes(most->peak.total()),
      format_bytes(predicted_bytes(config, rank)),
      to_text(most->peak));
  if (most->on_disk_peak > 0) {
    text += fmt::format("; {} on disk", format_bytes(most->on_disk_peak));
  }
  return text;
}

std::string out_of_memory_text(const RunConfig& config,
                               int rank,
                               const MemoryRequest& request) {
  const int64_t needed = request.in_use.total() + request.nbytes;
  const int64_t predicted = predicted_bytes(config, rank);
  // Communication is never in the prediction.
  const int64_t unpredicted = std::max(
      request.in_use[MemoryCategory::kCommunication], needed - predicted);
  const MemoryAdvice advice = advise_on_memory(
      config,
      {.limit_bytes =
           request.limit > 0 ? request.limit : request.in_use.total(),
       .unpredicted_bytes = unpredicted});
  std::string text = fmt::format("out of memory: {}; predicted were {}",
                                 to_text(request),
                                 format_bytes(predicted));
  if (unpredicted > 0) {
    text +=
        fmt::format(", to which {} are added here", format_bytes(unpredicted));
  }
  return text + "; " + to_text(advice);
}

std::string to_text(const Coord& coord) {
  return fmt::format("dp {}, pp {}, tp {}", coord.dp, coord.pp, coord.tp);
}

}  // namespace triax
