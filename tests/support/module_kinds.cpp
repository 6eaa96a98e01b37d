// SPDX-License-Identifier: Apache-2.0
#include "tests/support/module_kinds.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>

#include <stdexcept>

#include "tests/support/tensors.h"

namespace triax {
namespace {

namespace nn = torch::nn;

uint64_t seed_of(int rank, int step) {
  return static_cast<uint64_t>(100 * step + rank + 1);
}

/// Six layers in a ModuleList, a head, and a parameter that nobody uses.
class Stack : public TrainedModule {
 public:
  Stack() {
    for (int i = 0; i < 6; ++i) {
      layers->push_back(nn::Linear(20, 20));
    }
    register_module("layers", layers);
    register_module("head", head);
    register_parameter("unused", at::zeros({7}));
  }
  at::Tensor loss(int rank, int step) override {
    at::Tensor x = random_tensor({5, 20}, seed_of(rank, step), at::kFloat);
    for (const auto& layer : *layers) {
      x = x + layer->as<nn::Linear>()->forward(x).tanh();
    }
    return head(x).square().sum();
  }

  nn::ModuleList layers;
  nn::Linear head{20, 3};
};

/// A Sequential as the whole module, one layer of it frozen.
class FrozenLayer : public TrainedModule {
 public:
  FrozenLayer() {
    register_module("net", net);
    net->ptr(2)->as<nn::Linear>()->weight.requires_grad_(false);
  }
  at::Tensor loss(int rank, int step) override {
    return net->forward(random_tensor({4, 10}, seed_of(rank, step), at::kFloat))
        .square()
        .sum();
  }

  nn::Sequential net = nn::Sequential(nn::Linear(10, 33),
                                      nn::Tanh(),
                                      nn::Linear(33, 17),
                                      nn::GELU(),
                                      nn::Linear(17, 2));
};

/// Its weights are in a list, and its layers in one module.
class Recurrent : public TrainedModule {
 public:
  Recurrent() {
    register_module("embedding", embedding);
    register_module("lstm", lstm);
    register_module("head", head);
  }
  at::Tensor loss(int rank, int step) override {
    const at::Tensor ids = random_ids({3, 7}, 11, seed_of(rank, step));
    const auto [hidden, state] = lstm(embedding(ids));
    return head(hidden).square().sum() + std::get<1>(state).sum();
  }

  nn::Embedding embedding{nn::EmbeddingOptions(11, 8)};
  nn::LSTM lstm{
      nn::LSTMOptions(8, 12).num_layers(2).bidirectional(true).batch_first(
          true)};
  nn::Linear head{24, 2};
};

/// The encoder's own layers, which come as copies in a ModuleList.
class Encoder : public TrainedModule {
 public:
  Encoder() {
    register_module("encoder", encoder);
    register_module("norm", norm);
  }
  at::Tensor loss(int rank, int step) override {
    const at::Tensor x =
        random_tensor({6, 2, 16}, seed_of(rank, step), at::kFloat);
    return norm(encoder(x)).pow(3).sum();
  }

  nn::TransformerEncoder encoder{nn::TransformerEncoderOptions(
      nn::TransformerEncoderLayer(
          nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(24).dropout(
              0.0)),
      3)};
  nn::LayerNorm norm{nn::LayerNormOptions({16})};
};

class SelfAttention : public TrainedModule {
 public:
  SelfAttention() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor loss(int rank, int step) override {
    at::Tensor x = random_tensor({5, 2, 12}, seed_of(rank, step), at::kFloat);
    x = std::get<0>(first(x, x, x));
    return std::get<0>(second(x, x, x)).square().sum();
  }

  nn::MultiheadAttention first{nn::MultiheadAttentionOptions(12, 3)};
  nn::MultiheadAttention second{nn::MultiheadAttentionOptions(12, 2)};
};

/// Convolutions with a BatchNorm, whose buffers change in a forward.
class Convolutions : public TrainedModule {
 public:
  Convolutions() {
    register_module("features", features);
    register_module("head", head);
  }
  at::Tensor loss(int rank, int step) override {
    const at::Tensor x =
        random_tensor({2, 3, 8, 8}, seed_of(rank, step), at::kFloat);
    return head(features->forward(x).flatten(1)).square().sum();
  }

  nn::Sequential features =
      nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 6, 3).stride(2)),
                     nn::BatchNorm2d(6),
                     nn::ReLU(),
                     nn::Conv2d(nn::Conv2dOptions(6, 4, 2)),
                     nn::BatchNorm2d(4));
  nn::Linear head{16, 2};
};

/// The head's weight is the embedding's, and registered with both.
class Tied : public TrainedModule {
 public:
  struct Head : nn::Module {
    at::Tensor weight;
  };

  Tied() {
    register_module("embedding", embedding);
    register_module("middle", middle);
    register_module("head", head);
    head->weight = head->register_parameter("weight", embedding->weight);
  }
  at::Tensor loss(int rank, int step) override {
    const at::Tensor ids = random_ids({9}, 13, seed_of(rank, step));
    const at::Tensor x = middle(embedding(ids)).tanh();
    return at::cross_entropy_loss(
        x.matmul(head->weight.t()), ids.roll(1), {}, at::Reduction::Sum);
  }

  nn::Embedding embedding{nn::EmbeddingOptions(13, 8)};
  nn::Linear middle{8, 8};
  std::shared_ptr<Head> head = std::make_shared<Head>();
};

/// fp64 within fp32.
class TwoDtypes : public TrainedModule {
 public:
  TwoDtypes() {
    wide->to(at::kDouble);
    register_module("first", first);
    register_module("wide", wide);
    register_module("last", last);
  }
  at::Tensor loss(int rank, int step) override {
    at::Tensor x = random_tensor({3, 9}, seed_of(rank, step), at::kFloat);
    x = wide(first(x).to(at::kDouble)).to(at::kFloat);
    return last(x.tanh()).square().sum();
  }

  nn::Linear first{9, 9};
  nn::Linear wide{9, 9};
  nn::Linear last{9, 4};
};

/// One operation takes parameters of two units, in a list; one layer is used
/// several times.
class Listed : public TrainedModule {
 public:
  Listed() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  at::Tensor loss(int rank, int step) override {
    at::Tensor x = random_tensor({3, 8}, seed_of(rank, step), at::kFloat);
    const at::Tensor both = at::cat({a->weight, b->weight});
    x = x.matmul(both.t()).matmul(both).tanh();
    for (int i = 0; i < 3; ++i) {
      x = c(x).sigmoid();
    }
    return (x + a->bias + b->bias).square().sum();
  }

  nn::Linear a{8, 8};
  nn::Linear b{8, 8};
  nn::Linear c{8, 8};
};

template <class Module>
std::shared_ptr<TrainedModule> make() {
  return std::make_shared<Module>();
}

const ModuleKind& find_kind(const std::string& name) {
  for (const ModuleKind& kind : module_kinds()) {
    if (kind.name == name) {
      return kind;
    }
  }
  throw std::runtime_error("no kind of module: " + name);
}

}  // namespace

const std::vector<ModuleKind>& module_kinds() {
  static const std::vector<ModuleKind> kinds = {
      {"stack", {"layers.*"}, make<Stack>},
      {"whole_stack", {}, make<Stack>},
      {"frozen", {"net.*"}, make<FrozenLayer>},
      {"recurrent", {"lstm"}, make<Recurrent>},
      {"encoder", {"encoder.layers.*"}, make<Encoder>},
      {"attention", {"first", "second"}, make<SelfAttention>},
      {"convolutions", {"features.*", "head"}, make<Convolutions>},
      {"tied", {"embedding", "middle", "head"}, make<Tied>},
      {"two_dtypes", {"*"}, make<TwoDtypes>},
      {"listed", {"?"}, make<Listed>}};
  return kinds;
}

std::shared_ptr<TrainedModule> make_module(const std::string& kind) {
  const std::shared_ptr<TrainedModule> module = find_kind(kind).make();
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (const at::Tensor& parameter : module->parameters()) {
    parameter.copy_(
        random_tensor(parameter.sizes(), seed++, parameter.scalar_type())
            .mul(0.2));
  }
  return module;
}

std::vector<std::string> unit_patterns(const std::string& kind) {
  return find_kind(kind).units;
}

}  // namespace triax
