// SPDX-License-Identifier: Apache-2.0
#include "triax/model/loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "tests/support/tensors.h"
#include "triax/base/error.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

constexpr int64_t kVocab = 11;

LossOptions whole(double smoothing = 0.0, double z_loss = 0.0) {
  return {.vocab_size = kVocab,
          .first_vocab = 0,
          .num_valid = kVocab,
          .num_columns = kVocab,
          .label_smoothing = smoothing,
          .z_loss = z_loss,
          .reduce_max = {},
          .reduce_sum = {}};
}

at::Tensor labels_of(at::IntArrayRef shape) {
  at::Tensor labels = random_ids(shape, kVocab, 3);
  labels.view(-1)[1] = kIgnoredLabel;
  return labels;
}

/// Holders of the vocabulary as threads that add in order of their numbers.
class Holders {
 public:
  explicit Holders(int count) : tensors_(count), barrier_(count) {}

  LossOptions options(int holder, double smoothing, double z_loss) {
    const int count = static_cast<int>(tensors_.size());
    const VocabRange range = vocab_range(kVocab, count, holder);
    return {.vocab_size = kVocab,
            .first_vocab = range.first,
            .num_valid = range.num_valid,
            .num_columns = range.num_stored,
            .label_smoothing = smoothing,
            .z_loss = z_loss,
            .reduce_max = reduce(holder,
                                 [](at::Tensor& sum, const auto& t) {
                                   sum = at::maximum(sum, t);
                                 }),
            .reduce_sum = reduce(
                holder, [](at::Tensor& sum, const auto& t) { sum = sum + t; })};
  }

 private:
  template <class Add>
  std::function<void(at::Tensor&)> reduce(int holder, Add add) {
    return [this, holder, add](at::Tensor& t) {
      tensors_[holder] = t;
      barrier_.arrive_and_wait();
      at::Tensor sum = tensors_[0];
      for (size_t i = 1; i < tensors_.size(); ++i) {
        add(sum, tensors_[i]);
      }
      sum = sum.clone();
      barrier_.arrive_and_wait();
      t.copy_(sum);
    };
  }

  std::vector<at::Tensor> tensors_;
  std::barrier<> barrier_;
};

struct Outcome {
  at::Tensor loss;
  at::Tensor likelihood;
  at::Tensor grad;
};

Outcome run_loss(const at::Tensor& logits,
                 const at::Tensor& labels,
                 const LossOptions& options) {
  const at::Tensor leaf = logits.detach().clone().requires_grad_();
  const LossResult result = cross_entropy(leaf, labels, options);
  (result.loss / 3).backward();
  return {result.loss.detach(), result.negative_log_likelihood, leaf.grad()};
}

/// logits [B, S, V] split among `count` holders; the padding holds rubbish.
std::vector<Outcome> run_split(const at::Tensor& logits,
                               const at::Tensor& labels,
                               int count,
                               double smoothing = 0.0,
                               double z_loss = 0.0) {
  Holders holders(count);
  std::vector<Outcome> outcomes(count);
  std::vector<std::thread> threads;
  for (int holder = 0; holder < count; ++holder) {
    threads.emplace_back([&, holder] {
      const LossOptions options = holders.options(holder, smoothing, z_loss);
      at::Tensor part =
          at::full({logits.size(0), logits.size(1), options.num_columns},
                   77.0,
                   logits.options());
      part.narrow(2, 0, options.num_valid)
          .copy_(logits.narrow(2, options.first_vocab, options.num_valid));
      outcomes[holder] = run_loss(part, labels, options);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return outcomes;
}

at::Tensor theirs(const at::Tensor& logits,
                  const at::Tensor& labels,
                  double smoothing,
                  double z_loss) {
  const at::Tensor flat = logits.view({-1, kVocab});
  const at::Tensor log_sum = at::logsumexp(flat, 1);
  const at::Tensor counted = labels.view(-1).ne(kIgnoredLabel);
  return at::cross_entropy_loss(flat,
                                labels.view(-1),
                                {},
                                at::Reduction::Sum,
                                kIgnoredLabel,
                                smoothing) +
         (log_sum.square() * counted).sum() * z_loss;
}

struct Terms {
  double smoothing;
  double z_loss;
};

class CrossEntropy : public testing::TestWithParam<Terms> {};

TEST_P(CrossEntropy, IsLibTorchs) {
  const auto [smoothing, z_loss] = GetParam();
  const at::Tensor logits = random_tensor({2, 3, kVocab}, 1) * 3;
  const at::Tensor labels = labels_of({2, 3});
  const Outcome ours = run_loss(logits, labels, whole(smoothing, z_loss));
  const at::Tensor leaf = logits.clone().requires_grad_();
  const at::Tensor expected = theirs(leaf, labels, smoothing, z_loss);
  (expected / 3).backward();
  EXPECT_LT(max_difference(ours.loss, expected), 1e-13);
  EXPECT_LT(max_difference(ours.grad, leaf.grad()), 1e-14);
  EXPECT_LT(max_difference(ours.likelihood, theirs(logits, labels, 0, 0)),
            1e-13);
}

TEST_P(CrossEntropy, HasTheRightGradients) {
  const auto [smoothing, z_loss] = GetParam();
  const at::Tensor labels = labels_of({2, 3});
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return cross_entropy(in[0], labels, whole(smoothing, z_loss)).loss;
  };
  EXPECT_LT(gradient_error(ours, {random_tensor({2, 3, kVocab}, 1)}), 1e-8);
}

// 2 and 3 holders have padding; 8 include holders without a valid column.
TEST_P(CrossEntropy, PartsOfTheVocabularyGiveTheWhole) {
  const auto [smoothing, z_loss] = GetParam();
  const at::Tensor logits = random_tensor({2, 3, kVocab}, 1) * 3;
  const at::Tensor labels = labels_of({2, 3});
  const Outcome alone = run_loss(logits, labels, whole(smoothing, z_loss));
  for (const int count : {2, 3, 8}) {
    const auto outcomes = run_split(logits, labels, count, smoothing, z_loss);
    std::vector<at::Tensor> grads;
    for (int holder = 0; holder < count; ++holder) {
      const Outcome& outcome = outcomes[holder];
      EXPECT_LT(max_difference(outcome.loss, alone.loss), 1e-13);
      EXPECT_TRUE(bits_equal(outcome.loss, outcomes[0].loss));
      const VocabRange range = vocab_range(kVocab, count, holder);
      const int64_t padding = range.num_stored - range.num_valid;
      grads.push_back(outcome.grad.narrow(2, 0, range.num_valid));
      EXPECT_EQ(outcome.grad.narrow(2, range.num_valid, padding)
                    .count_nonzero()
                    .item<int64_t>(),
                0);
    }
    EXPECT_LT(max_difference(at::cat(grads, 2), alone.grad), 1e-14);
  }
}

INSTANTIATE_TEST_SUITE_P(Terms,
                         CrossEntropy,
                         testing::Values(Terms{0.0, 0.0},
                                         Terms{0.1, 0.0},
                                         Terms{0.0, 1e-2},
                                         Terms{0.2, 1e-2}));

TEST(CrossEntropyUniform, IsTheLogOfTheVocabularyExactly) {
  const at::Tensor labels = random_ids({1, 4}, kVocab, 3);
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const at::Tensor logits = at::zeros({1, 4, kVocab}, dtype);
    const double expected =
        dtype == at::kDouble ? 4 * std::log(11.0) : 4 * double{std::log(11.0f)};
    EXPECT_DOUBLE_EQ(run_loss(logits, labels, whole()).loss.item<double>(),
                     expected);
    for (const Outcome& outcome : run_split(logits, labels, 2)) {
      EXPECT_DOUBLE_EQ(outcome.loss.item<double>(), expected);
    }
  }
}

TEST(CrossEntropyUniform, Gpt2sVocabularyGivesItsLog) {
  LossOptions options = whole();
  options.vocab_size = options.num_valid = 50257;
  options.num_columns = 51200;  // padded; unmasked it would be 10.843495
  const at::Tensor logits = at::zeros({1, 1, 51200}, at::kDouble);
  const at::Tensor labels = at::full({1, 1}, 50256, at::kLong);
  EXPECT_NEAR(
      run_loss(logits, labels, options).loss.item<double>(), 10.824905, 1e-6);
}

TEST(CrossEntropyCounting, NothingCountedIsZeroWithoutNan) {
  const at::Tensor labels = at::full({2, 3}, kIgnoredLabel, at::kLong);
  const Outcome outcome =
      run_loss(random_tensor({2, 3, kVocab}, 1), labels, whole(0.1, 1e-2));
  EXPECT_EQ(outcome.loss.item<double>(), 0.0);
  EXPECT_EQ(outcome.grad.abs().max().item<double>(), 0.0);
}

TEST(CrossEntropyCounting, MicrobatchesAddUp) {
  const at::Tensor logits = random_tensor({2, 3, kVocab}, 1);
  const at::Tensor labels = labels_of({2, 3});
  const Outcome both = run_loss(logits, labels, whole());
  at::Tensor loss = at::zeros({}, at::kDouble);
  std::vector<at::Tensor> grads;
  for (int64_t i = 0; i < 2; ++i) {
    const Outcome one =
        run_loss(logits.narrow(0, i, 1), labels.narrow(0, i, 1), whole());
    loss += one.loss;
    grads.push_back(one.grad);
  }
  EXPECT_LT(max_difference(loss, both.loss), 1e-14);
  EXPECT_TRUE(bits_equal(at::cat(grads), both.grad));
}

TEST(CrossEntropyCounting, LargeLogitsDoNotOverflow) {
  const at::Tensor logits = random_tensor({2, 3, kVocab}, 1, at::kFloat) * 1e4;
  const Outcome outcome = run_loss(logits, labels_of({2, 3}), whole());
  EXPECT_TRUE(std::isfinite(outcome.loss.item<double>()));
  EXPECT_TRUE(outcome.grad.isfinite().all().item<bool>());
}

TEST(CrossEntropyDtype, SumsOfShortTypesAreTakenInFp32) {
  const at::Tensor logits = random_tensor({2, 3, kVocab}, 1, at::kBFloat16);
  const at::Tensor labels = labels_of({2, 3});
  const Outcome narrow = run_loss(logits, labels, whole());
  const Outcome wide = run_loss(logits.to(at::kFloat), labels, whole());
  EXPECT_TRUE(bits_equal(narrow.loss, wide.loss));
  EXPECT_TRUE(bits_equal(narrow.grad, wide.grad.to(at::kBFloat16)));
}

TEST(CrossEntropyRefuses, GatheredLogits) {
  Holders holders(2);
  const at::Tensor logits = random_tensor({2, 3, kVocab + 1}, 1);
  for (int holder = 0; holder < 2; ++holder) {
    EXPECT_THROW(
        cross_entropy(
            logits, labels_of({2, 3}), holders.options(holder, 0.0, 0.0)),
        Error);
  }
}

TEST(CrossEntropyRefuses, PartsThatDoNotAddUp) {
  LossOptions options = whole();
  options.reduce_max = [](at::Tensor&) {};
  options.reduce_sum = [](at::Tensor& t) { t.mul_(2); };  // both hold it all
  EXPECT_THROW(
      cross_entropy(
          random_tensor({2, 3, kVocab}, 1), labels_of({2, 3}), options),
      Error);
}

TEST(CrossEntropyRefuses, LabelsOutsideTheVocabulary) {
  const at::Tensor logits = random_tensor({1, 1, kVocab}, 1);
  for (const int64_t label : {kVocab, int64_t{-1}}) {
    EXPECT_THROW(
        cross_entropy(logits, at::full({1, 1}, label, at::kLong), whole()),
        Error);
  }
}

}  // namespace
}  // namespace triax
