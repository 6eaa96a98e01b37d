// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/cast_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>
#include <vector>

namespace triax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CastCopiesTest : public testing::Test {
 protected:
  CastCopiesTest() : casts_([this](int key) { gathered_.push_back(key); }) {
    casts_.add(a_, 1);
    casts_.add(b_, 2);
  }

  const at::Tensor a_ = at::full({4}, 2.0, at::kDouble).requires_grad_();
  const at::Tensor b_ = at::full({8}, 3.0, at::kDouble).requires_grad_();
  std::vector<int> gathered_;
  CastCopies casts_;
};

double total(const at::Tensor& tensor) {
  return tensor.sum().item<double>();
}

TEST_F(CastCopiesTest, ComeBackWhenAnOperationUsesThem) {
  const at::Tensor first = a_.to(at::kFloat);
  EXPECT_EQ(total(first), 8.0);
  const at::Tensor second = b_.to(at::kFloat);
  EXPECT_ANY_THROW(first.const_data_ptr());
  EXPECT_THAT(gathered_, IsEmpty());
  EXPECT_EQ(total(first.view({2, 2})), 8.0);
  EXPECT_THAT(gathered_, ElementsAre(1));
  EXPECT_ANY_THROW(second.const_data_ptr());
  EXPECT_EQ(total(second), 24.0);
  EXPECT_THAT(gathered_, ElementsAre(1, 2));
  EXPECT_EQ(casts_.most_bytes(), 8 * 4);
}

TEST_F(CastCopiesTest, OfSeveralInOneOperationAllAreThere) {
  const at::Tensor first = a_.to(at::kFloat);
  const at::Tensor second = b_.to(at::kFloat);
  EXPECT_EQ(total(first.outer(second)), 4 * 8 * 6.0);
  EXPECT_EQ(casts_.most_bytes(), 12 * 4);
}

TEST_F(CastCopiesTest, BackwardFindsWhatTheGraphSaved) {
  const at::Tensor first = a_.to(at::kFloat).square().sum();
  const at::Tensor second = b_.to(at::kFloat).square().sum();
  const at::Tensor loss = first * second;
  torch::autograd::backward({loss}, {});
  EXPECT_EQ(total(a_.grad()), 4 * 4.0 * 72.0);
  EXPECT_EQ(total(b_.grad()), 8 * 6.0 * 16.0);
  EXPECT_THAT(gathered_, ElementsAre(1));
}

TEST_F(CastCopiesTest, OtherTensorsAreLeftAlone) {
  const at::Tensor copy = at::full({4}, 1.0).to(at::kDouble);
  const at::Tensor part = a_.narrow(0, 1, 2).to(at::kFloat);
  const at::Tensor same = a_.to(at::kDouble, false, /*copy=*/true);
  const at::Tensor other = b_.to(at::kFloat);
  EXPECT_NE(copy.const_data_ptr(), nullptr);
  EXPECT_NE(part.const_data_ptr(), nullptr);
  EXPECT_NE(same.const_data_ptr(), nullptr);
}

TEST_F(CastCopiesTest, ChangedInPlaceStayAsTheyAre) {
  const at::NoGradGuard no_grad;
  const at::Tensor first = a_.to(at::kFloat);
  first.mul_(2.0);
  const at::Tensor second = b_.to(at::kFloat);
  EXPECT_EQ(total(first), 16.0);
  EXPECT_EQ(total(second), 24.0);
  EXPECT_THAT(gathered_, IsEmpty());
}

// Cast anew they would hold what the weight is now.
TEST_F(CastCopiesTest, OfWeightsThatWereChangedSinceAreAnError) {
  const at::NoGradGuard no_grad;
  const at::Tensor first = a_.to(at::kFloat);
  const at::Tensor second = b_.to(at::kFloat);
  a_.mul_(2.0);
  EXPECT_ANY_THROW(total(first));
  EXPECT_THAT([&] { casts_.rethrow_failure(); },
              testing::ThrowsMessage<std::exception>(
                  HasSubstr("changed after a copy")));
  EXPECT_EQ(total(second), 24.0);
}

TEST_F(CastCopiesTest, FromBeforeAChangeAreAnError) {
  const at::Tensor copy = a_.to(at::kFloat);
  casts_.expire();
  try {
    copy.sum();
    ADD_FAILURE() << "it is there";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("from before the last step"));
  }
  EXPECT_EQ(total(a_.to(at::kFloat)), 8.0);
}

TEST(CastCopies, KeepWhatGoesWrong) {
  const at::Tensor a = at::full({4}, 2.0, at::kDouble);
  const at::Tensor b = at::full({4}, 2.0, at::kDouble);
  CastCopies casts([](int) { throw std::runtime_error("no way"); });
  casts.add(a, 1);
  casts.add(b, 2);
  const at::Tensor first = a.to(at::kFloat);
  const at::Tensor second = b.to(at::kFloat);
  EXPECT_ANY_THROW(first.sum());
  EXPECT_THROW(casts.rethrow_failure(), std::runtime_error);
  EXPECT_NO_THROW(casts.rethrow_failure());
}

}  // namespace
}  // namespace triax
