// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/spill_file.h"

#include <ATen/ops/count_nonzero.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "tests/support/scratch_folder.h"
#include "triax/base/error.h"
#include "triax/base/folder_space.h"
#include "triax/memory/io_buffer.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// Numbers that depend on `seed` alone.
at::Tensor filled_buffer(int64_t nbytes, uint64_t seed) {
  const at::Tensor buffer = make_io_buffer(nbytes);
  std::mt19937_64 numbers(seed);
  auto* const words = static_cast<uint64_t*>(buffer.data_ptr());
  for (int64_t i = 0; i < buffer.numel() / 8; ++i) {
    words[i] = numbers();
  }
  return buffer;
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.numel()) == 0;
}

/// What a function's Error says; empty where it throws none.
template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// How the file is reached.
struct Way {
  std::string name;
  IoEngine engine = IoEngine::kBest;
  bool wants_direct = true;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class SpillFileBy : public testing::TestWithParam<Way> {
 protected:
  SpillFileOptions options() const {
    return {.engine = GetParam().engine,
            .wants_direct = GetParam().wants_direct,
            .what = "the optimizer state"};
  }
  std::string dir() const { return folder_.path().string(); }

 private:
  ScratchFolder folder_;
};

TEST_P(SpillFileBy, GivesBackWhatWasWritten) {
  SpillFile file(dir(), 9 * kIoAlignment + 1, options());
  EXPECT_EQ(file.nbytes(), 10 * kIoAlignment);
  const at::Tensor first = filled_buffer(3 * kIoAlignment, 1);
  const at::Tensor second = filled_buffer(kIoAlignment, 2);
  file.write(0, first.data_ptr(), first.numel()).wait();
  file.write(9 * kIoAlignment, second.data_ptr(), second.numel()).wait();
  const at::Tensor seen = make_io_buffer(3 * kIoAlignment);
  file.read(0, seen.data_ptr(), seen.numel()).wait();
  EXPECT_TRUE(same_bytes(seen, first));
  file.read(8 * kIoAlignment, seen.data_ptr(), 2 * kIoAlignment).wait();
  EXPECT_TRUE(same_bytes(seen.narrow(0, kIoAlignment, kIoAlignment), second));
  // What was never written.
  EXPECT_EQ(at::count_nonzero(seen.narrow(0, 0, kIoAlignment)).item<int64_t>(),
            0);
  EXPECT_EQ(file.moved().written, 4 * kIoAlignment);
  EXPECT_EQ(file.moved().read, 5 * kIoAlignment);
}

// More than an engine takes at a time, of odd sizes, in no order.
TEST_P(SpillFileBy, HasManyTransfersUnderWay) {
  constexpr int kCount = 300;
  std::mt19937_64 numbers(3);
  std::vector<int64_t> offsets = {0};
  for (int i = 0; i < kCount; ++i) {
    offsets.push_back(offsets.back() +
                      kIoAlignment * static_cast<int64_t>(1 + numbers() % 9));
  }
  SpillFile file(dir(), offsets.back(), options());
  const at::Tensor all = filled_buffer(offsets.back(), 4);
  const at::Tensor seen = make_io_buffer(offsets.back());
  std::vector<int> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  for (const bool is_write : {true, false}) {
    std::shuffle(order.begin(), order.end(), numbers);
    std::vector<IoRequest> requests;
    for (const int i : order) {
      const int64_t start = offsets[i];
      const int64_t nbytes = offsets[i + 1] - start;
      requests.push_back(
          is_write
              ? file.write(
                    start, all.narrow(0, start, nbytes).data_ptr(), nbytes)
              : file.read(
                    start, seen.narrow(0, start, nbytes).data_ptr(), nbytes));
    }
    std::shuffle(requests.begin(), requests.end(), numbers);
    for (IoRequest& request : requests) {
      request.wait();
      EXPECT_TRUE(request.is_done());
    }
  }
  EXPECT_TRUE(same_bytes(seen, all));
}

TEST_P(SpillFileBy, ARequestIsDoneWithoutBeingWaitedFor) {
  SpillFile file(dir(), kIoAlignment, options());
  const at::Tensor block = filled_buffer(kIoAlignment, 1);
  IoRequest request = file.write(0, block.data_ptr(), kIoAlignment);
  while (!request.is_done()) {
    sched_yield();
  }
  const at::Tensor seen = make_io_buffer(kIoAlignment);
  // A request that is dropped, or given another value, was waited for.
  static_cast<void>(file.read(0, seen.data_ptr(), kIoAlignment));
  EXPECT_TRUE(same_bytes(seen, block));
  seen.zero_();
  request = file.read(0, seen.data_ptr(), kIoAlignment);
  request = IoRequest();
  EXPECT_TRUE(same_bytes(seen, block));
}

TEST_P(SpillFileBy, EndsWithTransfersUnderWay) {
  const at::Tensor block = filled_buffer(1 << 20, 1);
  std::vector<IoRequest> requests;
  {
    SpillFile file(dir(), 16 << 20, options());
    for (int i = 0; i < 16; ++i) {
      requests.push_back(
          file.write(int64_t{i} << 20, block.data_ptr(), block.numel()));
    }
  }
  for (IoRequest& request : requests) {
    EXPECT_TRUE(request.is_done());
    request.wait();
  }
}

TEST_P(SpillFileBy, AFailedTransferSaysWhatAndWhere) {
  SpillFile file(dir(), 4 * kIoAlignment, options());
  const at::Tensor block = filled_buffer(kIoAlignment, 1);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {static_cast<rlim_t>(kIoAlignment), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  IoRequest request =
      file.write(2 * kIoAlignment, block.data_ptr(), kIoAlignment);
  const std::string text = error_of([&] { request.wait(); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text,
            "the file of the optimizer state in " + dir() +
                " cannot be written: File too large");
}

TEST_P(SpillFileBy, AFileOfNothingIsLegal) {
  SpillFile file(dir(), 0, options());
  EXPECT_EQ(file.nbytes(), 0);
  file.read(0, nullptr, 0).wait();
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    SpillFileBy,
    testing::Values(Way{"best"},
                    Way{"ring_buffered", IoEngine::kBest, false},
                    Way{"threads_direct", IoEngine::kThreads},
                    Way{"threads_buffered", IoEngine::kThreads, false}),
    [](const auto& info) { return info.param.name; });

TEST(SpillFile, TakesTheEngineThatIsAskedFor) {
  const ScratchFolder folder;
  const std::string dir = folder.path().string();
  EXPECT_EQ(SpillFile(dir, 1, {.engine = IoEngine::kThreads}).engine_name(),
            "threads");
  // A kernel without io_uring says so, and gets threads by itself.
  std::string name = "threads";
  const std::string refusal = error_of([&] {
    name = SpillFile(dir, 1, {.engine = IoEngine::kRing}).engine_name();
  });
  EXPECT_EQ(name, refusal.empty() ? "io_uring" : "threads");
  EXPECT_EQ(SpillFile(dir, 1).engine_name(), name);
}

/// The mode of this process' open file in `dir`; 0: none.
mode_t mode_of_open_file(const std::string& dir) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    struct stat status = {};
    if (fs::read_symlink(entry, error).string().starts_with(dir) &&
        ::stat(entry.path().c_str(), &status) == 0) {
      return status.st_mode & 07777;
    }
  }
  return 0;
}

TEST(SpillFile, HasNoNameAndNoOtherUser) {
  const ScratchFolder folder;
  const SpillFile file(folder.path().string(), 1 << 20);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(mode_of_open_file(folder.path().string()), 0600);
}

// The blocks are there: nothing that others write can take them.
TEST(SpillFile, HasItsBlocksFromTheStart) {
  const ScratchFolder folder;
  const std::string dir = folder.path().string();
  const int64_t before = folder_space(dir).free_bytes;
  const SpillFile file(dir, 256 << 20);
  EXPECT_LT(folder_space(dir).free_bytes, before - (200 << 20));
}

TEST(SpillFile, SaysThatTheDiskIsTooSmall) {
  const ScratchFolder folder;
  const std::string dir = folder.path().string();
  const int64_t wanted = folder_space(dir).free_bytes * 2;
  EXPECT_THAT(
      error_of([&] {
        SpillFile(dir, wanted, {.what = "the optimizer state of rank 3"});
      }),
      AllOf(HasSubstr("the optimizer state of rank 3 takes "),
            HasSubstr(" in " + dir + ", where "),
            HasSubstr(" are free; free some, set memory.offload_dir to")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SpillFile, SaysThatTheProcessMayNotHaveSuchAFile) {
  const ScratchFolder folder;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text =
      error_of([&] { SpillFile(folder.path().string(), 2 << 20); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(text,
              AllOf(HasSubstr("takes a file of 2.0 MiB"),
                    HasSubstr("limit on this process' files is 1.0 MiB"),
                    HasSubstr("ulimit -f")));
}

TEST(SpillFile, SaysThatTheFolderTakesNoFile) {
  const ScratchFolder folder;
  const std::string missing = folder.file("none");
  EXPECT_THAT(error_of([&] { SpillFile(missing, 1); }),
              AllOf(HasSubstr("can be made in " + missing),
                    HasSubstr("No such file or directory"),
                    HasSubstr("set memory.offload_dir")));
  EXPECT_THAT(error_of([&] { SpillFile("/proc/self", 1); }),
              HasSubstr("can be made in /proc/self"));
}

TEST(IoBuffer, IsAlignedAndCounted) {
  const RankMemoryScope rank(make_memory_tracker());
  const MemoryScope memory(MemoryCategory::kOptimizer);
  const at::Tensor buffer = make_io_buffer(kIoAlignment + 1);
  EXPECT_EQ(buffer.numel(), 2 * kIoAlignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data_ptr()) % kIoAlignment, 0U);
  EXPECT_EQ(this_rank_memory().use().current[MemoryCategory::kOptimizer],
            3 * kIoAlignment);
  const at::Tensor numbers = elements_of(buffer, 256, 10, at::kFloat);
  EXPECT_EQ(numbers.sizes(), at::IntArrayRef({10}));
  EXPECT_EQ(static_cast<std::byte*>(numbers.data_ptr()) -
                static_cast<std::byte*>(buffer.data_ptr()),
            256);
}

}  // namespace
}  // namespace triax
