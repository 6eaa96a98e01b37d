// SPDX-License-Identifier: Apache-2.0
// A program of its own with triax in it: ranks that this program starts train
// one small network, each on its part of every batch (docs/library.md).
//
//     data_parallel [RANKS]
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/linear.h>
#include <triax/base/error.h>
#include <triax/base/machine.h>
#include <triax/comm/fork_ranks.h>
#include <triax/comm/start_ranks.h>
#include <triax/data_parallel/bucket.h>
#include <triax/data_parallel/flat_buffer.h>
#include <triax/mesh/tensor_group.h>
#include <triax/optim/optimizer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int64_t kBatch = 96;  // rows of a step, over all ranks
constexpr int64_t kInputs = 2;
constexpr int kSteps = 200;

struct Network : torch::nn::Module {
  Network() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& rows) {
    return second(first(rows).tanh()).squeeze(1);
  }
  torch::nn::Linear first{kInputs, 64};
  torch::nn::Linear second{64, 1};
};

// Views of the parameters and of the gradients that the replicas sum.
std::vector<triax::OptimizedTensor> optimized(
    const triax::FlatBuffer& gradients) {
  std::vector<triax::OptimizedTensor> tensors;
  for (int i = 0; i < gradients.num_parameters(); ++i) {
    tensors.push_back({.parameter = gradients.parameter(i).detach().view({-1}),
                       .gradient = gradients.gradient(i).view({-1})});
  }
  return tensors;
}

// Whether every rank has the same bits.
bool is_equal_everywhere(triax::Group& world, Network& network) {
  double sum = 0.0;
  for (const at::Tensor& parameter : network.parameters()) {
    sum += parameter.detach().to(at::kDouble).sum().item<double>();
  }
  return triax::max_over(world, sum) == -triax::max_over(world, -sum);
}

int train(triax::StartedRank rank) {
  triax::Group& world = *rank.world;
  // Otherwise each rank takes all cores.
  at::set_num_threads(std::max(1, triax::num_cores() / world.size()));

  double count = 1.0;
  world.all_reduce({&count, 1, triax::DType::kFloat64});
  if (world.rank() == 0) {
    std::printf("%.0f ranks said hello\n", count);
  }

  at::manual_seed(1);  // the same first weights and batches on every rank
  Network network;
  triax::FlatBuffer gradients(network.parameters());
  triax::ReplicaGroups groups(world);
  triax::BucketReducer reducer(gradients, groups);
  triax::AdamW optimizer(optimized(gradients), {.beta2 = 0.99});

  const int64_t rows = kBatch / world.size();
  for (int step = 1; step <= kSteps; ++step) {
    rank.board->set_step(world.rank(), step);
    const at::Tensor batch =
        at::randn({kBatch, kInputs}).narrow(0, world.rank() * rows, rows);
    const at::Tensor wanted = batch.sum(1).sin();

    // Sums over the ranks are whole sums: divide by the rows of all.
    const at::Tensor loss =
        (network.forward(batch) - wanted).square().sum() / kBatch;
    gradients.zero();
    reducer.prepare();  // reduce behind this backward, bucket by bucket
    loss.backward();
    reducer.finish();
    optimizer.step(step <= kSteps / 2 ? 1e-2 : 2e-3);

    const double whole = triax::sum_over(world, loss.item<double>());
    if (world.rank() == 0 && (step == 1 || step % 50 == 0)) {
      std::printf("step %3d  loss %.6f\n", step, whole);
    }
    // Ctrl-C reaches ranks at different steps, so they agree.
    if (triax::max_over(world, triax::stop_requested() ? 1.0 : 0.0) > 0.0) {
      break;
    }
  }
  const bool is_equal = is_equal_everywhere(world, network);
  if (world.rank() == 0) {
    std::printf("the weights of all ranks are %s\n",
                is_equal ? "equal" : "different");
  }
  return is_equal ? 0 : 1;
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
