// SPDX-License-Identifier: Apache-2.0
#include "triax/model/parallel_rows.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace triax {
namespace {

TEST(ParallelRows, CallsEveryRowOnce) {
  for (const int64_t rows : {0, 1, 7, 100, 1001}) {
    std::vector<std::atomic<int>> calls(rows);
    parallel_rows(rows, 10, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        ++calls[row];
      }
    });
    for (const auto& count : calls) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelRows, UsesLibTorchsThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_rows(1000, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2u);
}

}  // namespace
}  // namespace triax
