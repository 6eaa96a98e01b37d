// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/activation_file.h"

#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tanh.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/scratch_folder.h"
#include "tests/support/tensors.h"
#include "triax/base/error.h"
#include "triax/memory/tracking_allocator.h"

namespace triax {
namespace {

using testing::HasSubstr;

constexpr int64_t kWidth = 48;
constexpr int64_t kRows = 64;
constexpr int64_t kTensor = kRows * kWidth * int64_t{sizeof(double)};
constexpr int kLayers = 8;

/// kLayers of x = x + gelu(x w) tanh(x w)[rows], which save x, x w and both
/// factors: four storages a layer, some of them twice.
class Chain {
 public:
  Chain() {
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(
          random_tensor({kWidth, kWidth}, i).mul_(0.1).requires_grad_());
    }
  }

  at::Tensor forward(const at::Tensor& input) const {
    at::Tensor x = input;
    for (const at::Tensor& weight : weights) {
      const at::Tensor y = at::mm(x, weight);
      const at::Tensor turned = at::tanh(y).view({kWidth, kRows}).t();
      x = at::add(x, at::mul(at::gelu(y), turned.reshape({kRows, kWidth})));
    }
    return at::mul(x, x).sum();
  }

  std::vector<at::Tensor> take_gradients() const {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : weights) {
      gradients.push_back(weight.grad().clone());
      weight.mutable_grad() = at::Tensor();
    }
    return gradients;
  }

  std::vector<at::Tensor> weights;
};

class ActivationFileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    install_tracking_allocator();
    install_saved_tensor_hooks();
  }

  ActivationFileOptions options() const {
    return {.dir = "/dev/shm",  // no disk, no waiting
            .microbatch_bytes = 6 * kLayers * kTensor,
            .num_microbatches = 2,
            .window_bytes = 2 * kTensor,
            .buffer_bytes = 8192,
            .num_buffers = 3};
  }

  std::shared_ptr<ActivationFile> make_file(
      const ActivationFileOptions& options) const {
    auto file = ActivationFile::make(options);
    for (const at::Tensor& weight : chain_.weights) {
      file->stay_in_memory(weight);
    }
    return file;
  }

  at::Tensor forward(ActivationFile& file, int microbatch) const {
    const ActivationScope memory;
    const ActivationFileScope scope(file, microbatch);
    return chain_.forward(input(microbatch));
  }

  static at::Tensor input(int microbatch) {
    return random_tensor({kRows, kWidth}, 100 + microbatch);
  }

  std::vector<at::Tensor> expected(const std::vector<int>& microbatches) const {
    for (const int microbatch : microbatches) {
      chain_.forward(input(microbatch)).backward();
    }
    return chain_.take_gradients();
  }

  void expect_gradients(const std::vector<at::Tensor>& expected) const {
    const std::vector<at::Tensor> found = chain_.take_gradients();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bits_equal(found[i], expected[i])) << "layer " << i;
    }
  }

  static MemoryUse use() { return this_rank_memory().use(); }
  static int64_t activations() {
    return use().current[MemoryCategory::kActivations];
  }

  const ScratchFolder folder_;
  const Chain chain_;
  const RankMemoryScope rank_{make_memory_tracker()};
};

TEST_F(ActivationFileTest, GivesBackwardTheSameBits) {
  const auto one = expected({0, 1, 2, 3});
  ActivationFileOptions on_disk = options();
  on_disk.dir = folder_.file("");
  const auto file = make_file(on_disk);
  // As in a pipeline: two live ones, oldest first.
  at::Tensor older = forward(*file, 0);
  for (int microbatch = 1; microbatch < 4; ++microbatch) {
    const at::Tensor newer = forward(*file, microbatch);
    file->begin_backward(microbatch - 1);
    older.backward();
    older = newer;
  }
  EXPECT_GT(use().on_disk, 0);
  file->begin_backward(3);
  older.backward();
  older = at::Tensor();
  expect_gradients(one);
  EXPECT_EQ(file->bytes_without_room(), 0);
  EXPECT_EQ(use().on_disk, 0);
}

TEST_F(ActivationFileTest, WorksInAnyOrderOfBackward) {
  const auto one = expected({1, 0});
  const auto file = make_file(options());
  const at::Tensor first = forward(*file, 0);
  const at::Tensor second = forward(*file, 1);
  file->begin_backward(1);
  second.backward();
  first.backward();  // and without a word before
  expect_gradients(one);
}

TEST_F(ActivationFileTest, LeavesTheWindowsInMemory) {
  const int64_t before = activations();
  at::Tensor loss;
  {
    const ActivationScope memory;
    loss = chain_.forward(input(0));
  }
  const int64_t whole = activations() - before;
  loss = at::Tensor();
  EXPECT_GT(whole, 4 * kLayers * kTensor);

  const auto file = make_file(options());
  const int64_t buffers = activations() - before;
  EXPECT_LT(buffers, 3 * (8192 + 4096) + 1);
  loss = forward(*file, 0);
  const int64_t left = activations() - before - buffers;
  EXPECT_LE(left, options().window_bytes + 1024);
  // Everything is in one of the two places: the tanh that lies in both is the
  // exception, of which there is none.
  EXPECT_EQ(use().on_disk + left / kTensor * kTensor,
            whole / kTensor * kTensor);
  file->begin_backward(0);
  EXPECT_LE(activations() - before - buffers - left,
            options().window_bytes + 2 * 4096);
  loss.backward();
  chain_.take_gradients();
}

TEST_F(ActivationFileTest, WritesAStorageOnce) {
  ActivationFileOptions small = options();
  small.window_bytes = 1;
  const auto file = make_file(small);
  const at::Tensor x = at::add(input(0), 1.0);
  at::Tensor loss;
  {
    const ActivationFileScope scope(*file, 0);
    const at::Tensor wide = at::mm(x, chain_.weights[0]);
    loss = at::mul(wide, wide).sum();  // saved by both factors
    loss = loss + at::mul(wide.t(), wide.t()).sum();
    loss = loss + at::tanh(wide.narrow(0, 3, 5)).sum();
  }
  // x and wide; tanh's result, the last that was saved, stays.
  EXPECT_EQ(use().largest_on_disk, 2 * kTensor);
  loss.backward();
  chain_.weights[0].mutable_grad() = at::Tensor();
}

TEST_F(ActivationFileTest, LeavesAloneWhatOthersHold) {
  ActivationFileOptions small = options();
  small.window_bytes = 1;
  const auto file = make_file(small);
  std::vector<double> numbers(kRows * kWidth, 0.5);
  const at::Tensor foreign =
      at::from_blob(numbers.data(), {kRows, kWidth}, at::kDouble);
  const at::Tensor leaf = input(0).requires_grad_();
  {
    const ActivationFileScope scope(*file, 0);
    at::Tensor loss = at::mm(foreign, chain_.weights[0].t()).sum();
    loss = loss + at::mm(leaf, chain_.weights[1].narrow(1, 0, 8)).sum();
    const at::Tensor y = at::mm(leaf, chain_.weights[2]);
    loss = loss + at::mm(leaf.detach().t(), y).sum();
    // Two results, of which the first goes.
    loss = loss + at::tanh(at::tanh(y)).sum();
    EXPECT_EQ(use().largest_on_disk, kTensor);
    loss.backward();
  }
  for (int i = 0; i < 3; ++i) {
    chain_.weights[i].mutable_grad() = at::Tensor();
  }
}

TEST_F(ActivationFileTest, WhatFindsNoRoomStays) {
  const auto one = expected({0, 1, 2});
  ActivationFileOptions small = options();
  small.microbatch_bytes = 5 * kTensor;
  const auto file = make_file(small);
  const at::Tensor first = forward(*file, 0);
  EXPECT_GT(file->bytes_without_room(), kLayers * kTensor);
  const at::Tensor second = forward(*file, 1);
  const int64_t before = file->bytes_without_room();
  const at::Tensor third = forward(*file, 2);  // more than are expected
  EXPECT_GT(file->bytes_without_room() - before, 4 * kLayers * kTensor - 1);
  for (const at::Tensor& loss : {first, second, third}) {
    loss.backward();
  }
  expect_gradients(one);
}

TEST_F(ActivationFileTest, AGraphThatIsDroppedFreesItsRoom) {
  const auto one = expected({7});
  const auto file = make_file(options());
  for (int i = 0; i < 7; ++i) {
    const at::Tensor loss = forward(*file, i);
    if (i % 2 == 1) {
      file->begin_backward(i);  // reads are under way
    }
  }
  EXPECT_EQ(use().on_disk, 0);
  const at::Tensor loss = forward(*file, 7);
  EXPECT_EQ(file->bytes_without_room(), 0);
  loss.backward();
  expect_gradients(one);
}

TEST_F(ActivationFileTest, AGraphOutlivesItsOwner) {
  const auto one = expected({0});
  auto file = make_file(options());
  const at::Tensor loss = forward(*file, 0);
  file.reset();
  loss.backward();
  expect_gradients(one);
}

/// No file of this process may be written behind so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t nbytes)
      : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = nbytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_ = {};
};

TEST_F(ActivationFileTest, AWriteThatFailsEndsTheForwardPass) {
  const auto file = make_file(options());
  const FileSizeLimit limit(4096);
  try {
    forward(*file, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the file of the activations in /dev/shm"));
    EXPECT_THAT(error.what(), HasSubstr("cannot be written"));
  }
}

/// Cuts all files without a name in the folder to nothing.
int truncate_nameless_files(const std::string& folder) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), ignored);
    if (target.starts_with(folder) && target.ends_with("(deleted)")) {
      count += truncate(entry.path().c_str(), 0) == 0;
    }
  }
  return count;
}

TEST_F(ActivationFileTest, AReadThatFailsEndsTheBackwardPass) {
  ActivationFileOptions on_disk = options();
  on_disk.dir = folder_.file("");
  const auto file = make_file(on_disk);
  const at::Tensor loss = forward(*file, 0);
  const std::string folder =
      std::filesystem::canonical(folder_.file("")).string();
  ASSERT_EQ(truncate_nameless_files(folder), 1);
  try {
    loss.backward();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the file of the activations in "));
    EXPECT_THAT(error.what(), HasSubstr("cannot be read"));
  }
}

/// What backward says, with the graph kept for another one.
std::string failure_of_backward(const at::Tensor& loss) {
  try {
    loss.backward({}, /*retain_graph=*/true);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(ActivationFileTest, AReadThatFailedFailsAgain) {
  ActivationFileOptions on_disk = options();
  on_disk.dir = folder_.file("");
  const auto file = make_file(on_disk);
  const at::Tensor loss = forward(*file, 0);
  const std::string folder =
      std::filesystem::canonical(folder_.file("")).string();
  ASSERT_EQ(truncate_nameless_files(folder), 1);
  const std::string first = failure_of_backward(loss);
  EXPECT_THAT(first, HasSubstr("cannot be read"));
  EXPECT_EQ(failure_of_backward(loss), first);
  EXPECT_EQ(failure_of_backward(loss), first);
}

TEST_F(ActivationFileTest, AWriteThatFailedFailsWhoeverNeedsItsBytes) {
  // More than the window and less than a buffer: written when it is read.
  ActivationFileOptions few = options();
  few.buffer_bytes = 4 * kTensor;
  const auto file = make_file(few);
  const at::Tensor x = input(0).requires_grad_();
  at::Tensor loss;
  {
    const ActivationFileScope scope(*file, 0);
    at::Tensor y = at::add(x, 1.0);
    for (int i = 0; i < 5; ++i) {
      y = at::tanh(y);
    }
    loss = y.sum();
  }
  EXPECT_EQ(use().on_disk, 3 * kTensor);
  const FileSizeLimit limit(4096);
  const std::string first = failure_of_backward(loss);
  EXPECT_THAT(first, HasSubstr("cannot be written"));
  EXPECT_EQ(failure_of_backward(loss), first);
  try {
    const ActivationFileScope scope(*file, 1);
    chain_.forward(input(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), first);
  }
}

// Room, windows and the order of reading are as before.
TEST_F(ActivationFileTest, ABackwardThatThrewLeavesTheNextOneRight) {
  const auto one = expected({1, 2});
  const auto file = make_file(options());
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    const at::Tensor loss = forward(*file, microbatch);
    file->begin_backward(microbatch);
    if (microbatch > 0) {
      loss.backward();
      continue;
    }
    int num_gradients = 0;
    const unsigned hook = chain_.weights[kLayers / 2].register_hook(
        [&num_gradients](const at::Tensor&) {
          ++num_gradients;
          throw Error("broken on purpose");
        });
    EXPECT_THROW(loss.backward(), Error);
    EXPECT_EQ(num_gradients, 1);
    chain_.weights[kLayers / 2].remove_hook(hook);
    for (const at::Tensor& weight : chain_.weights) {
      weight.mutable_grad() = at::Tensor();
    }
  }
  EXPECT_EQ(file->bytes_without_room(), 0);
  EXPECT_EQ(use().on_disk, 0);
  expect_gradients(one);
}

TEST_F(ActivationFileTest, AFullDiskIsSaidAtTheStart) {
  ActivationFileOptions huge = options();
  huge.microbatch_bytes = int64_t{1} << 50;
  try {
    ActivationFile::make(huge);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the activations takes"));
  }
}

}  // namespace
}  // namespace triax
