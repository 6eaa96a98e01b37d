// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "triax/memory/out_of_memory.h"

namespace triax {
namespace {

using Category = MemoryCategory;

/// Entries as the allocator makes them, in a tracker of the test's own.
class Tracker : public testing::Test {
 protected:
  MemoryTracker& tracker_ = make_memory_tracker();
  const RankMemoryScope rank_{tracker_};

  MemoryBytes current() const { return tracker_.use().current; }
  MemoryBytes peak() const { return tracker_.use().peak; }
};

MemoryBytes bytes(std::initializer_list<std::pair<Category, int64_t>> parts) {
  MemoryBytes made;
  for (const auto& [category, nbytes] : parts) {
    made[category] = nbytes;
  }
  return made;
}

TEST_F(Tracker, ABlockCountsInTheInnermostScopesCategory) {
  std::vector<MemoryTracker::Entry> entries = {MemoryTracker::enter(1)};
  {
    const MemoryScope parameters(Category::kParameters);
    entries.push_back(MemoryTracker::enter(2));
    {
      const MemoryScope optimizer(Category::kOptimizer);
      entries.push_back(MemoryTracker::enter(4));
    }
    entries.push_back(MemoryTracker::enter(8));
  }
  entries.push_back(MemoryTracker::enter(16));
  EXPECT_EQ(current(),
            bytes({{Category::kTemporary, 17},
                   {Category::kParameters, 10},
                   {Category::kOptimizer, 4}}));
  for (const MemoryTracker::Entry& entry : entries) {
    MemoryTracker::leave(entry);
  }
  EXPECT_EQ(current(), MemoryBytes{});
  EXPECT_EQ(peak().total(), 31);
}

TEST_F(Tracker, APeakKeepsWhatItWasMadeOf) {
  const MemoryScope gradients(Category::kGradients);
  const auto kept = MemoryTracker::enter(100);
  {
    const MemoryScope temporary(Category::kTemporary);
    MemoryTracker::leave(MemoryTracker::enter(50));
    MemoryTracker::leave(MemoryTracker::enter(30));
  }
  MemoryTracker::leave(kept);
  MemoryTracker::leave(MemoryTracker::enter(149));
  EXPECT_EQ(peak(),
            bytes({{Category::kGradients, 100}, {Category::kTemporary, 50}}));
  EXPECT_EQ(tracker_.use().largest,
            bytes({{Category::kGradients, 149}, {Category::kTemporary, 50}}));
}

TEST_F(Tracker, WhatAForwardPassKeepsIsActivations) {
  MemoryTracker::Entry kept;
  {
    const ActivationScope forward;
    kept = MemoryTracker::enter(10);
    MemoryTracker::leave(MemoryTracker::enter(100));
  }
  EXPECT_EQ(current(), bytes({{Category::kActivations, 10}}));
  EXPECT_EQ(peak(),
            bytes({{Category::kActivations, 10}, {Category::kTemporary, 100}}));
  EXPECT_EQ(tracker_.use().largest[Category::kActivations], 10);
  // Backward frees it, and allocates outside of a scope.
  const auto gradient = MemoryTracker::enter(200);
  MemoryTracker::leave(kept);
  MemoryTracker::leave(gradient);
  EXPECT_EQ(peak(),
            bytes({{Category::kActivations, 10}, {Category::kTemporary, 200}}));
}

TEST_F(Tracker, WhatAPeakDidNotSeeDoesNotChangeIt) {
  const ActivationScope forward;
  MemoryTracker::leave(MemoryTracker::enter(100));
  MemoryTracker::leave(MemoryTracker::enter(60));  // after the peak
  EXPECT_EQ(peak(), bytes({{Category::kTemporary, 100}}));
}

TEST_F(Tracker, WhatAForwardPassFreesOfAnEarlierOneWasActivations) {
  MemoryTracker::Entry kept;
  {
    const ActivationScope first;
    kept = MemoryTracker::enter(10);
  }
  const ActivationScope second;
  const auto own = MemoryTracker::enter(5);
  MemoryTracker::leave(kept);
  MemoryTracker::leave(own);
  EXPECT_EQ(peak(),
            bytes({{Category::kActivations, 10}, {Category::kTemporary, 5}}));
}

TEST_F(Tracker, AScopeInAForwardPassSaysWhatItIs) {
  const ActivationScope forward;
  MemoryTracker::Entry gathered;
  {
    const MemoryScope parameters(Category::kParameters);
    gathered = MemoryTracker::enter(7);
    MemoryTracker::Entry inner;
    {
      const ActivationScope recomputed;
      inner = MemoryTracker::enter(3);
    }
    EXPECT_EQ(current(),
              bytes({{Category::kParameters, 7}, {Category::kActivations, 3}}));
    MemoryTracker::leave(inner);
  }
  MemoryTracker::leave(MemoryTracker::enter(20));
  MemoryTracker::leave(gathered);
  EXPECT_EQ(peak(),
            bytes({{Category::kParameters, 7}, {Category::kTemporary, 20}}));
}

TEST_F(Tracker, AnInnerForwardPassIsPartOfTheOuter) {
  const ActivationScope outer;
  MemoryTracker::Entry entry;
  {
    const ActivationScope inner;
    entry = MemoryTracker::enter(9);
  }
  MemoryTracker::leave(entry);
  EXPECT_EQ(peak(), bytes({{Category::kTemporary, 9}}));
}

TEST_F(Tracker, SharedMemoryIsCommunicationAndIsReplaced) {
  const MemoryScope communication(Category::kCommunication);
  const auto message = MemoryTracker::enter(5);
  tracker_.set_shared_bytes(100);
  tracker_.set_shared_bytes(40);
  EXPECT_EQ(current(), bytes({{Category::kCommunication, 45}}));
  EXPECT_EQ(peak(), bytes({{Category::kCommunication, 105}}));
  MemoryTracker::leave(message);
  EXPECT_EQ(current(), bytes({{Category::kCommunication, 40}}));
}

TEST_F(Tracker, SharedMemoryOfAStepWasThereAtItsPeak) {
  MemoryTracker::leave(MemoryTracker::enter(50));
  tracker_.set_shared_bytes(10);
  EXPECT_EQ(
      peak(),
      bytes({{Category::kTemporary, 50}, {Category::kCommunication, 10}}));
  tracker_.set_shared_bytes(4);
  EXPECT_EQ(peak().total(), 60);
  MemoryTracker::leave(MemoryTracker::enter(55));
  EXPECT_EQ(peak().total(), 60);
  MemoryTracker::leave(MemoryTracker::enter(57));
  EXPECT_EQ(peak(),
            bytes({{Category::kTemporary, 57}, {Category::kCommunication, 4}}));
}

TEST_F(Tracker, WhatIsThereAlreadyIsNotRefused) {
  tracker_.set_limit(10);
  const auto noted = MemoryTracker::note(20);
  EXPECT_EQ(current(), bytes({{Category::kTemporary, 20}}));
  EXPECT_THROW(MemoryTracker::enter(1), OutOfMemory);
  MemoryTracker::leave(noted);
  MemoryTracker::leave(MemoryTracker::enter(10));
}

TEST_F(Tracker, PeaksBeginAnew) {
  const auto kept = MemoryTracker::enter(10);
  MemoryTracker::leave(MemoryTracker::enter(90));
  tracker_.reset_peak();
  EXPECT_EQ(peak(), bytes({{Category::kTemporary, 10}}));
  EXPECT_EQ(tracker_.use().largest, peak());
  MemoryTracker::leave(MemoryTracker::enter(1));
  EXPECT_EQ(peak().total(), 11);
  MemoryTracker::leave(kept);
}

TEST_F(Tracker, TheLimitIsTheLastByteThatIsGiven) {
  tracker_.set_limit(100);
  tracker_.set_shared_bytes(30);
  const MemoryScope optimizer(Category::kOptimizer);
  const auto kept = MemoryTracker::enter(60);
  MemoryTracker::leave(MemoryTracker::enter(10));
  try {
    MemoryTracker::enter(11);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.request().nbytes, 11);
    EXPECT_EQ(error.request().category, Category::kOptimizer);
    EXPECT_EQ(error.request().limit, 100);
    EXPECT_STREQ(error.what(),
                 "out of memory: 11 B more for optimizer would make 101 B of "
                 "memory.limit = 100 B; in use are optimizer 60 B, "
                 "communication 30 B");
  }
  EXPECT_EQ(current().total(), 90);
  // What is shared is not refused, but leaves nothing for others.
  tracker_.set_shared_bytes(200);
  EXPECT_THROW(MemoryTracker::enter(1), OutOfMemory);
  tracker_.set_limit(0);
  MemoryTracker::leave(MemoryTracker::enter(1000));
  MemoryTracker::leave(kept);
}

TEST_F(Tracker, EachThreadIsTheRankItSays) {
  MemoryTracker& other = make_memory_tracker();
  MemoryTracker::Entry entry;
  std::thread thread([&] {
    const RankMemoryScope rank(other);
    const MemoryScope parameters(Category::kParameters);
    entry = MemoryTracker::enter(8);
  });
  thread.join();
  EXPECT_EQ(current().total(), 0);
  EXPECT_EQ(other.use().current, bytes({{Category::kParameters, 8}}));
  MemoryTracker::leave(entry);  // by whichever thread
  EXPECT_EQ(other.use().current.total(), 0);
  EXPECT_EQ(current().total(), 0);
}

TEST(MemoryBytes, SaysWhatThereIs) {
  EXPECT_EQ(to_text(MemoryBytes{}), "nothing");
  EXPECT_EQ(to_text(bytes(
                {{Category::kTemporary, 3 << 20}, {Category::kGradients, 1}})),
            "gradients 1 B, temporary 3.0 MiB");
}

}  // namespace
}  // namespace triax
