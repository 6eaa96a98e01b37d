// SPDX-License-Identifier: Apache-2.0
// What the tracking allocator adds to an allocation and its release, and to a
// training step. usage: allocator_bench [ROUNDS]; prints one JSON line a size,
// then one for a step of a model of 1.6 M parameters on one thread.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "triax/memory/tracker.h"
#include "triax/memory/tracking_allocator.h"
#include "triax/model/allocate.h"
#include "triax/model/loss.h"
#include "triax/model/transformer.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPairs = 20000;

/// Nanoseconds of one allocation and its release.
double pair_ns(c10::Allocator& allocator, size_t nbytes) {
  const auto start = Clock::now();
  for (int i = 0; i < kPairs; ++i) {
    allocator.raw_deallocate(allocator.raw_allocate(nbytes));
  }
  const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
  return spent.count() / kPairs;
}

/// Both in turns, the best of each: the added nanoseconds.
double added_ns(size_t nbytes, int rounds) {
  c10::Allocator& plain = *c10::GetDefaultCPUAllocator();
  c10::Allocator& tracking = *c10::GetCPUAllocator();
  double best_plain = 1e9;
  double best_tracking = 1e9;
  for (int round = 0; round < rounds; ++round) {
    best_plain = std::min(best_plain, pair_ns(plain, nbytes));
    best_tracking = std::min(best_tracking, pair_ns(tracking, nbytes));
  }
  std::printf("{\"bytes\": %zu, \"plain_ns\": %.1f, \"tracking_ns\": %.1f}\n",
              nbytes,
              best_plain,
              best_tracking);
  return best_tracking - best_plain;
}

ModelConfig small_llama() {
  ModelConfig config;
  config.hidden_size = 128;
  config.intermediate_size = 344;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 32;
  config.vocab_size = 256;
  config.max_position_embeddings = 128;
  return config;
}

void run_step(Transformer& model) {
  const at::Tensor ids = at::randint(256, {4, 129}, at::kLong);
  const at::Tensor logits = model.forward(
      ids.narrow(1, 0, 128), {.sample_ids = {0, 1, 2, 3}, .document_ids = {}});
  const LossResult result = cross_entropy(logits,
                                          ids.narrow(1, 1, 128),
                                          {.vocab_size = 256,
                                           .first_vocab = 0,
                                           .num_valid = 256,
                                           .num_columns = 256,
                                           .reduce_max = {},
                                           .reduce_sum = {}});
  (result.loss / 512).backward();
}

/// Forward and backward, whose blocks are small and many.
void measure_step(double added_ns, int rounds) {
  const ModelConfig config = small_llama();
  const ModelPart part = {.num_layers = 8};
  Transformer model(config, part);
  set_layouts(model, parameter_layouts(config, part, 1, 0));
  allocate(model, DType::kFloat32, 1);
  run_step(model);
  double best = 1e9;
  int64_t num_blocks = 0;
  for (int round = 0; round < rounds; ++round) {
    const int64_t blocks_before = this_rank_memory().use().num_blocks;
    const auto start = Clock::now();
    run_step(model);
    const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
    best = std::min(best, spent.count());
    num_blocks = this_rank_memory().use().num_blocks - blocks_before;
  }
  std::printf("{\"step_ms\": %.2f, \"blocks\": %ld, \"added_percent\": %.3f}\n",
              best * 1e-6,
              static_cast<long>(num_blocks),
              100 * added_ns * static_cast<double>(num_blocks) / best);
}

int run(int rounds) {
  install_tracking_allocator();
  at::set_num_threads(1);
  double worst = 0;
  for (const size_t nbytes : {64, 1024, 16384, 131072, 1 << 20, 1 << 26}) {
    const double added = added_ns(nbytes, rounds);
    // A system call's noise hides the rest in large ones.
    worst = nbytes < 100000 ? std::max(worst, added) : worst;
  }
  measure_step(worst, rounds);
  return 0;
}

}  // namespace
}  // namespace triax

int main(int argc, char** argv) {
  return triax::run(argc > 1 ? std::atoi(argv[1]) : 20);
}
