// SPDX-License-Identifier: Apache-2.0
#include "triax/train/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "tests/support/run_ranks.h"
#include "triax/check/memory_advice.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MemoryReport, GathersEveryRanksPeak) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const MemoryScope optimizer(MemoryCategory::kOptimizer);
    MemoryTracker::leave(MemoryTracker::enter(100 * (world->rank() + 1)));
    const std::vector<RankMemory> ranks = gather_memory(*world, {});
    ASSERT_EQ(ranks.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ranks[rank].peak[MemoryCategory::kOptimizer], 100 * (rank + 1));
      EXPECT_GT(ranks[rank].peak[MemoryCategory::kCommunication], 0);
      EXPECT_GT(ranks[rank].resident_peak, 1 << 20);
    }
  });
}

TEST(MemoryReport, NamesTheRankWithMost) {
  const RunConfig config = checked_tiny_run(plan_overrides("tp2_pp2"));
  std::vector<RankMemory> ranks(4);
  ranks[2].peak[MemoryCategory::kGradients] = 3 << 20;
  ranks[3].peak[MemoryCategory::kParameters] = 2 << 20;
  EXPECT_THAT(peak_text(config, ranks),
              testing::MatchesRegex(
                  "memory of rank 2 \\(dp 0, pp 1, tp 0\\), the one with most: "
                  "3\\.0 MiB at its peak, predicted .* KiB and communication; "
                  "gradients 3\\.0 MiB"));
}

TEST(MemoryReport, SaysWhatLiesOnDisk) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    this_rank_memory().add_on_disk((world->rank() + 1) << 20);
    this_rank_memory().add_on_disk(-(1 << 20));
    const std::vector<RankMemory> ranks = gather_memory(*world, {});
    EXPECT_EQ(ranks[0].on_disk_peak, 1 << 20);
    EXPECT_EQ(ranks[1].on_disk_peak, 2 << 20);
  });
  std::vector<RankMemory> ranks(1);
  ranks[0].on_disk_peak = 3 << 20;
  EXPECT_THAT(peak_text(checked_tiny_run({}), ranks),
              testing::EndsWith("; 3.0 MiB on disk"));
}

MemoryRequest request_of(int64_t activations, int64_t communication) {
  MemoryRequest request;
  request.nbytes = 1024;
  request.category = MemoryCategory::kActivations;
  request.in_use[MemoryCategory::kActivations] = activations;
  request.in_use[MemoryCategory::kCommunication] = communication;
  request.limit = activations + communication;
  return request;
}

TEST(MemoryReport, AddsWhatTheRunNeededBeyondThePrediction) {
  const RunConfig config = checked_tiny_run({});
  const int64_t predicted = heaviest_rank_bytes(config);
  EXPECT_THAT(out_of_memory_text(config, 0, request_of(predicted / 2, 0)),
              Not(HasSubstr("to which")));
  // A MiB of communication, in a run that had not come to its peak.
  EXPECT_THAT(out_of_memory_text(config, 0, request_of(8, 1 << 20)),
              HasSubstr("to which 1.0 MiB are added here"));
  // 3 MiB and the request over the prediction.
  EXPECT_THAT(
      out_of_memory_text(config, 0, request_of(predicted + (3 << 20), 0)),
      HasSubstr("to which 3.0 MiB are added here"));
}

TEST(MemoryReport, WithoutALimitFitsWhatThereWas) {
  const RunConfig config = checked_tiny_run({});
  MemoryRequest request = request_of(heaviest_rank_bytes(config), 0);
  request.limit = 0;
  const std::string text = out_of_memory_text(config, 0, request);
  EXPECT_THAT(text,
              testing::StartsWith("out of memory: the system has no 1.0 KiB "
                                  "more for activations"));
  EXPECT_THAT(text,
              HasSubstr("it would fit with training.microbatch_size = 1 ("));
}

}  // namespace
}  // namespace triax
