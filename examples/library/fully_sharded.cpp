// SPDX-License-Identifier: Apache-2.0
// ZeRO 3 for a module of LibTorch as it is: each rank keeps its shard of
// parameters, gradients and optimizer state, and at most two units are gathered
// at a time. Plain replicas are trained beside it: the weights are equal, bit
// for bit (docs/library.md).
//
//     fully_sharded [RANKS]
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <triax/base/error.h>
#include <triax/base/machine.h>
#include <triax/comm/start_ranks.h>
#include <triax/data_parallel/bucket.h>
#include <triax/data_parallel/fully_sharded_module.h>
#include <triax/mesh/tensor_group.h>
#include <triax/optim/optimizer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int64_t kBatch = 96;  // rows of a step, over all ranks
constexpr int64_t kWidth = 64;
constexpr int kBlocks = 8;
constexpr int kSteps = 60;

// Nothing in the module knows of ranks.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + down(up(norm(x)).tanh());
  }
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear up{kWidth, 4 * kWidth};
  torch::nn::Linear down{4 * kWidth, kWidth};
};
TORCH_MODULE(Block);

struct Network : torch::nn::Module {
  Network() {
    for (int i = 0; i < kBlocks; ++i) {
      blocks->push_back(Block());
    }
    register_module("first", first);
    register_module("blocks", blocks);
    register_module("last", last);
  }
  at::Tensor forward(at::Tensor x) {
    x = first(x);
    for (const auto& block : *blocks) {
      x = block->as<Block>()->forward(x);
    }
    return last(x).squeeze(1);
  }
  torch::nn::Linear first{kWidth, kWidth};
  torch::nn::ModuleList blocks;
  torch::nn::Linear last{kWidth, 1};
};

at::Tensor loss_of(Network& network, const at::Tensor& rows) {
  const at::Tensor wanted = rows.narrow(1, 0, 2).sum(1).sin();
  return (network.forward(rows) - wanted).square().sum() / kBatch;
}

// The same network with whole parameters on every rank.
class Replica {
 public:
  Replica(Network& network, triax::Group& world)
      : gradients_(network.parameters()),
        groups_(world),
        reducer_(gradients_, groups_),
        optimizer_(optimized(), {}) {}

  void step(const at::Tensor& loss, double lr) {
    gradients_.zero();
    reducer_.prepare();
    loss.backward();
    reducer_.finish();
    optimizer_.step(lr);
  }

 private:
  std::vector<triax::OptimizedTensor> optimized() const {
    std::vector<triax::OptimizedTensor> tensors;
    for (int i = 0; i < gradients_.num_parameters(); ++i) {
      tensors.push_back(
          {.parameter = gradients_.parameter(i).detach().view({-1}),
           .gradient = gradients_.gradient(i).view({-1})});
    }
    return tensors;
  }

  triax::FlatBuffer gradients_;
  triax::ReplicaGroups groups_;
  triax::BucketReducer reducer_;
  triax::AdamW optimizer_;
};

bool have_equal_bits(const Network& a, const Network& b) {
  const std::vector<at::Tensor> of_b = b.parameters();
  size_t i = 0;
  for (const at::Tensor& parameter : a.parameters()) {
    if (!at::equal(parameter, of_b[i++])) {
      return false;
    }
  }
  return true;
}

int64_t two_largest(const triax::FullyShardedModule& sharded) {
  std::vector<int64_t> sizes;
  for (const triax::ShardedUnit& unit : sharded.units()) {
    sizes.push_back(unit.nbytes);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes[0] + sizes[1];
}

int train(triax::StartedRank rank) {
  triax::Group& world = *rank.world;
  at::set_num_threads(std::max(1, triax::num_cores() / world.size()));

  at::manual_seed(1);
  Network whole_network;
  Replica replica(whole_network, world);

  at::manual_seed(1);
  Network network;
  triax::FullyShardedModule sharded(network, world, {.units = {"blocks.*"}});
  triax::AdamW optimizer(sharded.optimized(), {});

  const int64_t rows = kBatch / world.size();
  for (int step = 1; step <= kSteps; ++step) {
    rank.board->set_step(world.rank(), step);
    const at::Tensor batch =
        at::randn({kBatch, kWidth}).narrow(0, world.rank() * rows, rows);
    const double lr = 1e-3;
    replica.step(loss_of(whole_network, batch), lr);

    const at::Tensor loss = loss_of(network, batch);
    sharded.backward(loss);
    sharded.step(optimizer, {.lr = lr});
    const double whole = triax::sum_over(world, loss.item<double>());
    if (world.rank() == 0 && (step == 1 || step % 20 == 0)) {
      std::printf("step %2d  loss %.6f\n", step, whole);
    }
  }

  const int64_t gathered = sharded.most_gathered_bytes();
  bool is_equal = false;
  {
    const triax::WholeParameters scope = sharded.gather_all();
    is_equal = have_equal_bits(network, whole_network);
  }
  if (world.rank() == 0) {
    std::printf(
        "%zu units; the two largest take %lld bytes; at most %lld bytes "
        "were gathered, beside %lld bytes of shards\n",
        sharded.units().size(),
        static_cast<long long>(two_largest(sharded)),
        static_cast<long long>(gathered),
        static_cast<long long>(sharded.shard_bytes()));
    std::printf("the weights and those of plain replicas are %s\n",
                is_equal ? "equal" : "different");
  }
  return is_equal && gathered <= two_largest(sharded) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int world_size = argc > 1 ? std::atoi(argv[1]) : 2;
  if (world_size < 1 || kBatch % world_size != 0) {
    std::fprintf(stderr, "RANKS must divide %d\n", int(kBatch));
    return 2;
  }
  try {
    return triax::start_ranks({.world_size = world_size}, train);
  } catch (const triax::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
