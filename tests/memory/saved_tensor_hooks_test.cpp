// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/saved_tensor_hooks.h"

#include <ATen/ops/add.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mul.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>

#include "tests/support/tensors.h"
#include "triax/base/error.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// x w, which saves its inputs and its output.
class Product : public torch::autograd::Function<Product> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& w) {
    const at::Tensor y = at::mul(x, w);
    context->save_for_backward({x, w, y});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    EXPECT_TRUE(
        bits_equal(saved[2].detach(), at::mul(saved[0], saved[1]).detach()));
    return {at::mul(grads[0], saved[1]), at::mul(grads[0], saved[0])};
  }
};

/// Copies what is saved, in the place of which NaN could stand.
class Copier : public SavedTensorKeeper {
 public:
  struct Copy : SavedTensor {
    Copy(Copier& owner, at::Tensor copy) : owner(owner), copy(std::move(copy)) {
      ++owner.num_alive;
    }
    ~Copy() override { --owner.num_alive; }
    at::Tensor unpack() override {
      if (owner.on_unpack) {
        owner.on_unpack();
      }
      return copy;
    }
    Copier& owner;
    const at::Tensor copy;
  };

  std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) override {
    ++num_kept;
    if (on_keep) {
      on_keep();
    }
    return std::make_unique<Copy>(*this, tensor.detach().clone());
  }

  std::function<void()> on_keep;
  std::function<void()> on_unpack;
  int num_kept = 0;
  int num_alive = 0;
};

/// Operations of LibTorch's own and ours.
class SavedTensorHooks : public testing::Test {
 protected:
  static void SetUpTestSuite() { install_saved_tensor_hooks(); }

  at::Tensor forward() const {
    return at::exp(Product::apply(at::gelu(x_), w_)).sum();
  }

  std::vector<at::Tensor> gradients_of(const at::Tensor& loss) const {
    x_.mutable_grad() = at::Tensor();
    w_.mutable_grad() = at::Tensor();
    loss.backward();
    return {x_.grad(), w_.grad()};
  }

  const at::Tensor x_ = random_tensor({64}, 1).requires_grad_();
  const at::Tensor w_ = random_tensor({64}, 2).requires_grad_();
};

TEST_F(SavedTensorHooks, GiveBackwardWhatTheKeeperGives) {
  const std::vector<at::Tensor> expected = gradients_of(forward());
  Copier copier;
  at::Tensor loss;
  {
    const SavedTensorScope scope(copier);
    loss = forward();
  }
  // gelu's input; both inputs and the output of the product; exp's output.
  EXPECT_EQ(copier.num_kept, 5);
  EXPECT_EQ(copier.num_alive, 5);
  const std::vector<at::Tensor> found = gradients_of(loss);
  EXPECT_TRUE(bits_equal(found[0], expected[0]));
  EXPECT_TRUE(bits_equal(found[1], expected[1]));
  EXPECT_EQ(copier.num_alive, 0);
}

TEST_F(SavedTensorHooks, AreAskedInTheirScopeAlone) {
  Copier outer;
  Copier inner;
  forward();
  {
    const SavedTensorScope scope(outer);
    { const SavedTensorScope nested(inner); }
    const at::Tensor loss = forward();
    EXPECT_EQ(outer.num_alive, 5);
  }
  // A graph that held its own output would be alive.
  EXPECT_EQ(outer.num_alive, 0);
  forward();
  EXPECT_EQ(outer.num_kept, 5);
  EXPECT_EQ(inner.num_kept, 0);
}

TEST_F(SavedTensorHooks, LetErrorsThrough) {
  Copier copier;
  const auto fail = [] { throw Error("the disk is gone"); };
  copier.on_keep = fail;
  {
    const SavedTensorScope scope(copier);
    EXPECT_THROW(forward(), Error);
  }
  copier.on_keep = {};
  copier.on_unpack = fail;
  at::Tensor loss;
  {
    const SavedTensorScope scope(copier);
    loss = forward();
  }
  EXPECT_THROW(loss.backward(), Error);
  loss = at::Tensor();
  EXPECT_EQ(copier.num_alive, 0);
}

TEST_F(SavedTensorHooks, SeeATensorThatWasChanged) {
  Copier copier;
  at::Tensor hidden = at::add(x_, 1.0);
  at::Tensor loss;
  {
    const SavedTensorScope scope(copier);
    loss = at::mul(hidden, w_).sum();
  }
  hidden.add_(1.0);
  try {
    loss.backward();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("was changed in place (it is at version 1, "
                                   "saved was version 0)"));
  }
}

}  // namespace
}  // namespace triax
