// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/spilled_arrays.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"
#include "tests/support/tensors.h"
#include "triax/base/error.h"
#include "triax/memory/io_buffer.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

constexpr int64_t kBlock = kSpillAlignment;
constexpr int64_t kNumel = 23 * kBlock;

/// Three arrays of different types, in windows that do not divide them.
class Arrays : public testing::Test {
 protected:
  ScratchFolder folder_;
  SpilledArrays arrays_{folder_.path().string(),
                        kNumel,
                        {{"first", at::kFloat},
                         {"second", at::kBFloat16},
                         {"third", at::kDouble}},
                        {.window_numel = 3 * kBlock}};

  /// All of an array, read in windows.
  at::Tensor whole(int array, const Range& elements = {0, kNumel}) {
    std::vector<at::Tensor> parts;
    arrays_.for_each_window({elements, {array}, {}},
                            [&](const ArrayWindow& window) {
                              parts.push_back(window.arrays[array].clone());
                            });
    return at::cat(parts);
  }
};

TEST_F(Arrays, BeginAsZeros) {
  EXPECT_EQ(arrays_.nbytes(), kNumel * (4 + 2 + 8));
  EXPECT_EQ(arrays_.nbytes(1), kNumel * 2);
  for (const int array : {0, 1, 2}) {
    EXPECT_EQ(whole(array).numel(), kNumel);
    EXPECT_EQ(at::count_nonzero(whole(array)).item<int64_t>(), 0);
  }
}

TEST_F(Arrays, EachWindowReadsAndWritesItsElements) {
  const at::Tensor numbers = at::arange(kNumel, at::kDouble);
  int64_t next = 0;
  arrays_.for_each_window(
      {{0, kNumel}, {}, {0, 2}}, [&](const ArrayWindow& window) {
        EXPECT_EQ(window.elements.start, next);
        next += window.elements.length;
        EXPECT_FALSE(window.arrays[1].defined());
        const at::Tensor part =
            numbers.narrow(0, window.elements.start, window.elements.length);
        window.arrays[0].copy_(part);
        window.arrays[2].copy_(part * 3.0);
      });
  EXPECT_EQ(next, kNumel);
  for (int round = 0; round < 3; ++round) {
    arrays_.for_each_window({{0, kNumel}, {0, 2}, {2}},
                            [](const ArrayWindow& window) {
                              window.arrays[2].add_(window.arrays[0]);
                              window.arrays[0].zero_();  // is not written
                            });
  }
  EXPECT_TRUE(at::equal(whole(0), numbers.to(at::kFloat)));
  EXPECT_TRUE(at::equal(whole(2), numbers * 6.0));
  EXPECT_EQ(at::count_nonzero(whole(1)).item<int64_t>(), 0);
  EXPECT_EQ(arrays_.file().moved().written, kNumel * (12 + 3 * 8));
}

TEST_F(Arrays, WhatIsOnlyWrittenBeginsAsZerosInEachPass) {
  for (const double value : {5.0, 0.0}) {
    arrays_.for_each_window({{0, kNumel}, {}, {1}},
                            [&](const ArrayWindow& window) {
                              if (value != 0.0) {
                                window.arrays[1].fill_(value);
                              }
                            });
  }
  EXPECT_EQ(at::count_nonzero(whole(1)).item<int64_t>(), 0);
}

TEST_F(Arrays, APassMayCoverAPart) {
  const Range part{2 * kBlock, 7 * kBlock};
  std::vector<Range> seen;
  arrays_.for_each_window({part, {0}, {0}}, [&](const ArrayWindow& window) {
    seen.push_back(window.elements);
    window.arrays[0].fill_(1.0);
  });
  EXPECT_THAT(seen,
              testing::ElementsAre(Range{2 * kBlock, 3 * kBlock},
                                   Range{5 * kBlock, 3 * kBlock},
                                   Range{8 * kBlock, kBlock}));
  EXPECT_EQ(whole(0).sum().item<double>(), 7.0 * kBlock);
  EXPECT_EQ(whole(0, part).sum().item<double>(), 7.0 * kBlock);
}

TEST_F(Arrays, PartsAreReadAndWrittenByThemselves) {
  const Range part{5 * kBlock, 2 * kBlock};
  const at::Tensor memory = make_io_buffer(arrays_.io_bytes(2, part));
  const at::Tensor numbers = random_tensor({part.length}, 1);
  elements_of(memory, 0, part.length, at::kDouble).copy_(numbers);
  arrays_.write(2, part, memory).wait();
  memory.zero_();
  arrays_.read(2, part, memory).wait();
  EXPECT_TRUE(
      at::equal(elements_of(memory, 0, part.length, at::kDouble), numbers));
  EXPECT_TRUE(at::equal(whole(2, part), numbers));
}

TEST_F(Arrays, ABodyMayThrow) {
  const auto fails = [](const ArrayWindow& window) {
    if (window.elements.start > 0) {
      throw Error("enough");
    }
  };
  EXPECT_THROW(arrays_.for_each_window({{0, kNumel}, {0, 1, 2}, {0}}, fails),
               Error);
  EXPECT_EQ(whole(0).numel(), kNumel);
}

TEST_F(Arrays, TakeTheirWindowsMemoryWhileTheyAreUsed) {
  const RankMemoryScope rank(make_memory_tracker());
  arrays_.for_each_window({{0, kNumel}, {0}, {0}}, [](const ArrayWindow&) {});
  const MemoryUse use = this_rank_memory().use();
  EXPECT_EQ(use.current.total(), 0);
  EXPECT_LE(use.peak.total(),
            kNumWindows * (3 * kBlock * 4 + kIoAlignment) + 4096);
}

}  // namespace
}  // namespace triax
