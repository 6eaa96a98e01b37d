// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/storage_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "triax/memory/refillable_storage.h"

namespace triax {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// What one call was told, in the order of the calls.
struct Told {
  std::vector<std::vector<int>> before;
  std::vector<std::vector<int>> after;

  StorageWatch::Call note_before() {
    return [this](std::span<const int> keys) {
      before.emplace_back(keys.begin(), keys.end());
    };
  }
  StorageWatch::Call note_after() {
    return [this](std::span<const int> keys) {
      after.emplace_back(keys.begin(), keys.end());
    };
  }
};

class StorageWatchTest : public testing::Test {
 protected:
  StorageWatchTest() : watch_(told_.note_before(), told_.note_after()) {
    watch_.add(a_, 7);
    watch_.add(b_, 8);
  }

  /// The keys of the outermost operations that `call` runs, in their order,
  /// without repetition.
  template <class Call>
  std::vector<std::vector<int>> told_by(const Call& call) {
    told_.before.clear();
    call();
    auto told = told_.before;
    told.erase(std::unique(told.begin(), told.end()), told.end());
    return told;
  }

  at::Tensor a_ = at::ones({4, 4}).requires_grad_();
  at::Tensor b_ = at::ones({4, 4}).requires_grad_();
  Told told_;
  StorageWatch watch_;
};

TEST_F(StorageWatchTest, TellsOfOperationsOnWatchedMemoryAlone) {
  const at::Tensor other = at::ones({4, 4});
  EXPECT_THAT(told_by([&] { at::mm(other, other); }), IsEmpty());
  EXPECT_THAT(told_by([&] { at::mm(a_, other); }), ElementsAre(ElementsAre(7)));
  EXPECT_THAT(told_by([&] { at::mm(other, b_.t()); }),
              ElementsAre(ElementsAre(8)));
}

TEST_F(StorageWatchTest, TellsOfViewsAndDetachedTensors) {
  const at::Tensor view = a_.detach().view({16}).narrow(0, 3, 5);
  EXPECT_THAT(told_by([&] { view.sum(); }), ElementsAre(ElementsAre(7)));
}

TEST_F(StorageWatchTest, TellsOfLists) {
  EXPECT_THAT(told_by([&] {
                const auto joined = at::cat({a_.detach(), b_.detach()});
              }).back(),
              UnorderedElementsAre(7, 8));
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> list = {at::ones({4, 4}), b_};
  EXPECT_THAT(told_by([&] { at::_foreach_add_(list, 1.0); }),
              ElementsAre(ElementsAre(8)));
  const c10::List<std::optional<at::Tensor>> indices(
      {std::optional<at::Tensor>(at::ones({4, 4}, at::kLong))});
  EXPECT_THAT(told_by([&] { at::index(a_, indices); }),
              ElementsAre(ElementsAre(7)));
}

TEST_F(StorageWatchTest, TellsOfWhatIsWritten) {
  const at::NoGradGuard no_grad;
  const at::Tensor other = at::ones({4, 4});
  EXPECT_THAT(told_by([&] { a_.add_(1.0); }), ElementsAre(ElementsAre(7)));
  at::Tensor out = b_.detach();
  EXPECT_THAT(told_by([&] { at::mul_out(out, other, other); }),
              ElementsAre(ElementsAre(8)));
}

TEST_F(StorageWatchTest, TellsOfTheBackwardPass) {
  const at::Tensor x = at::ones({4, 4}).requires_grad_();
  const at::Tensor loss = at::mm(at::mm(x, a_), b_).sum();
  EXPECT_THAT(told_by([&] { torch::autograd::backward({loss}, {}); }),
              ElementsAre(ElementsAre(8), ElementsAre(7)));
}

TEST_F(StorageWatchTest, TellsOfOtherThreads) {
  EXPECT_THAT(told_by([&] { std::thread([&] { a_.detach().sum(); }).join(); }),
              ElementsAre(ElementsAre(7)));
}

TEST_F(StorageWatchTest, EndsEachOperationThatItBegan) {
  const at::Tensor joined = at::cat({a_, b_}).sum();
  EXPECT_THROW(at::mm(a_, at::ones({3, 3})), c10::Error);
  EXPECT_EQ(told_.before.size(), told_.after.size());
  EXPECT_FALSE(told_.after.empty());
}

TEST(StorageWatch, IsSilentWhenItIsOver) {
  const at::Tensor a = at::ones({4});
  Told told;
  {
    StorageWatch watch(told.note_before(), told.note_after());
    watch.add(a, 1);
    a.sum();
    EXPECT_FALSE(told.before.empty());
  }
  told.before.clear();
  a.sum();
  EXPECT_THAT(told.before, IsEmpty());
}

TEST(StorageWatch, DoesNotTellOfWhatItsCallsRun) {
  const at::Tensor a = at::ones({4});
  int calls = 0;
  bool runs = false;
  const auto call = [&](std::span<const int>) {
    ++calls;
    if (runs) {
      a.sum();
    }
  };
  StorageWatch watch(call, call);
  watch.add(a, 1);
  a.add_(1.0);
  const int expected = std::exchange(calls, 0);
  runs = true;
  a.add_(1.0);
  EXPECT_EQ(calls, expected);
}

TEST(StorageWatch, KeepsWhatACallThrew) {
  const at::Tensor a = at::ones({4});
  StorageWatch watch(
      [](std::span<const int>) { throw std::runtime_error("the first"); },
      [](std::span<const int>) { throw std::runtime_error("the second"); });
  watch.add(a, 1);
  EXPECT_EQ(watch.take_failure(), nullptr);
  EXPECT_EQ(a.sum().item<double>(), 4.0);
  const std::exception_ptr failure = watch.take_failure();
  ASSERT_NE(failure, nullptr);
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "the first");
  }
  EXPECT_EQ(watch.take_failure(), nullptr);
}

/// By a pointer, which a graph does not notice.
void write(const RefillableStorage& storage, float value) {
  auto* const first = reinterpret_cast<float*>(storage.data());
  std::fill_n(first, storage.nbytes() / int64_t{sizeof(float)}, value);
}

// A tensor, a view and what a graph saved follow their memory.
TEST(RefillableStorage, GivesBackAndRefillsMemoryUnderTensors) {
  RefillableStorage storage(16 * sizeof(float), "not there");
  const at::Tensor whole = storage.tensor(at::kFloat, 0, {4, 4});
  const at::Tensor view = whole.t()[1];
  EXPECT_FALSE(storage.is_filled());
  EXPECT_THAT(
      [&] { static_cast<void>(whole.data_ptr()); },
      testing::ThrowsMessage<c10::Error>(testing::HasSubstr("not there")));
  EXPECT_THROW(view.sum(), c10::Error);
  storage.fill();
  write(storage, 2.0F);
  EXPECT_EQ(view.sum().item<double>(), 8.0);
  const at::Tensor x = at::ones({4, 4}).requires_grad_();
  const at::Tensor loss = at::mm(x, whole).sum();
  storage.free("gone");
  EXPECT_THAT([&] { torch::autograd::backward({loss}, {}, /*retain=*/true); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr("gone")));
  storage.fill();
  write(storage, 3.0F);
  torch::autograd::backward({loss}, {});
  EXPECT_EQ(x.grad().sum().item<double>(), 16 * 12.0);
}

TEST(RefillableStorage, HoldsNothingWhenFree) {
  RefillableStorage storage(0, "empty");
  const at::Tensor none = storage.tensor(at::kFloat, 0, {0, 3});
  storage.fill();
  EXPECT_EQ(none.sum().item<double>(), 0.0);
}

}  // namespace
}  // namespace triax
