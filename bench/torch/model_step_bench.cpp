// SPDX-License-Identifier: Apache-2.0
// One rank's forward and backward of the llama-s shape (8 layers of 512), as
// eager_llama.py beside it does in PyTorch. usage: model_step_bench [STEPS
// [THREADS]]; prints one JSON line.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "triax/model/allocate.h"
#include "triax/model/loss.h"
#include "triax/model/transformer.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of all threads: what a busy machine does not change.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

ModelConfig llama_s() {
  ModelConfig config;
  config.hidden_size = 512;
  config.intermediate_size = 1376;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.vocab_size = 8192;
  config.max_position_embeddings = 1024;
  return config;
}

void run_step(Transformer& model, int64_t step) {
  const at::Tensor ids = at::randint(8192, {2, 257}, at::kLong);
  for (const at::Tensor& parameter : model.parameters()) {
    parameter.mutable_grad() = at::Tensor();
  }
  const at::Tensor logits =
      model.forward(ids.narrow(1, 0, 256),
                    {.sample_ids = {0, 1}, .step = step, .document_ids = {}});
  const LossResult result = cross_entropy(logits,
                                          ids.narrow(1, 1, 256),
                                          {.vocab_size = 8192,
                                           .first_vocab = 0,
                                           .num_valid = 8192,
                                           .num_columns = 8192,
                                           .reduce_max = {},
                                           .reduce_sum = {}});
  (result.loss / 512).backward();
}

int run(int steps, int threads) {
  at::set_num_threads(threads);
  const ModelConfig config = llama_s();
  const ModelPart part = {.num_layers = 8};
  const double cpu_before = cpu_seconds();
  Transformer model(config, part);
  set_layouts(model, parameter_layouts(config, part, 1, 0));
  allocate(model, DType::kFloat32, 1);
  const double start_seconds = cpu_seconds() - cpu_before;
  const double start_mib = peak_mib();
  std::vector<double> times;
  std::vector<double> cpu_times;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    const double cpu_start = cpu_seconds();
    run_step(model, step);
    times.push_back(seconds_since(start));
    cpu_times.push_back(cpu_seconds() - cpu_start);
  }
  std::sort(times.begin(), times.end());
  std::sort(cpu_times.begin(), cpu_times.end());
  std::printf(
      "{\"program\": \"triax\", \"fastest_s\": %.4f, \"median_s\": %.4f, "
      "\"cpu_s\": %.4f, \"allocate_cpu_s\": %.3f, \"peak_at_start_mib\": %.0f, "
      "\"peak_mib\": "
      "%.0f}\n",
      times.front(),
      times[times.size() / 2],
      cpu_times[cpu_times.size() / 2],
      start_seconds,
      start_mib,
      peak_mib());
  return 0;
}

}  // namespace
}  // namespace triax

int main(int argc, char** argv) {
  return triax::run(argc > 1 ? std::atoi(argv[1]) : 10,
                    argc > 2 ? std::atoi(argv[2]) : 2);
}
