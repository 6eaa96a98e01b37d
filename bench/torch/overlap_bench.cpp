// SPDX-License-Identifier: Apache-2.0
// How much of the replicas' reductions hides behind the backward pass: two
// ranks, four buckets whose backward takes longer than the emulated 20 ms of
// their all_reduce. Prints one JSON line; times are medians over the steps,
// of the slower rank:
//   overlap_bench [--steps N]
// "overlapped" starts a bucket as soon as its gradients are there, "serial"
// starts all of them after the backward pass.
#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "triax/base/json.h"
#include "triax/comm/fork_ranks.h"
#include "triax/comm/local.h"
#include "triax/comm/recorder.h"
#include "triax/data_parallel/bucket.h"
#include "triax/mesh/tensor_group.h"

namespace {

using namespace triax;

// D width of a layer, T tokens
constexpr int kNumRanks = 2;
constexpr int kNumBuckets = 4;
constexpr int64_t kWidth = 768;
constexpr double kReduceSeconds = 0.020;
constexpr double kWantedBackwardSeconds = 0.045;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// What one step showed on this rank, in milliseconds.
struct StepTimes {
  double backward = 0;  // of the bucket that took least
  double lead = 0;      // from the first reduction to the last gradient
  double exposed = 0;   // stood still for reductions
};

/// A chain of linear layers, each weight a bucket of its own.
class Chain {
 public:
  explicit Chain(int64_t num_tokens) { resize(num_tokens); }

  /// In the order in which backward finishes them.
  std::vector<at::Tensor> parameters() const {
    return {weights_.rbegin(), weights_.rend()};
  }
  void resize(int64_t num_tokens) {
    // With a gradient of its own, so that every layer's backward is alike.
    input_ = at::randn({num_tokens, kWidth}).requires_grad_();  // [T, D]
  }
  at::Tensor forward() const {
    at::Tensor x = input_;
    for (const at::Tensor& weight : weights_) {
      x = at::linear(x, weight);
    }
    return x.sum();
  }

 private:
  static std::vector<at::Tensor> make_weights() {
    std::vector<at::Tensor> weights;
    for (int i = 0; i < kNumBuckets; ++i) {
      weights.push_back(
          at::randn({kWidth, kWidth}).mul_(1 / std::sqrt(kWidth)));
      weights.back().requires_grad_();
    }
    return weights;
  }

  const std::vector<at::Tensor> weights_ = make_weights();
  at::Tensor input_;
};

/// One rank: its chain, reducer and record.
class OverlapRank {
 public:
  OverlapRank(const std::shared_ptr<Board>& board, Group& dp, int rank)
      : board_(board),
        dp_(dp),
        rank_(rank),
        recorder_(board, rank),
        chain_(kFirstTokens),
        gradients_(chain_.parameters(), {.bucket_numel = 1}),
        groups_(dp),
        reducer_(gradients_, groups_) {
    reducer_.before_reduce = [this](int) { gradient_ns_.push_back(now_ns()); };
    const auto bucket_bytes = static_cast<double>(
        gradients_.layout().largest_bucket() * sizeof(float));
    // Two ranks: an all_reduce costs bytes / bandwidth.
    dp_.emulate({.bytes_per_second = bucket_bytes / kReduceSeconds});
  }

  /// Sizes the batch so that a bucket's backward takes what is wanted.
  int64_t fit_tokens() {
    step(/*is_overlapped=*/true);
    double fastest = step(true).backward;
    for (int i = 0; i < 3; ++i) {
      fastest = std::min(fastest, step(true).backward);
    }
    const double seconds = -max_over(dp_, -fastest * 1e-3);
    const auto num_tokens = static_cast<int64_t>(
        std::ceil(kFirstTokens * kWantedBackwardSeconds / seconds));
    chain_.resize(num_tokens);
    return num_tokens;
  }

  StepTimes step(bool is_overlapped) {
    board_->set_step(rank_, ++step_);
    gradients_.zero();
    gradient_ns_.clear();
    const at::Tensor loss = chain_.forward();
    dp_.barrier();
    const int64_t start_ns = now_ns();
    if (is_overlapped) {
      reducer_.prepare();
    }
    torch::autograd::backward({loss}, {});
    const int64_t backward_end_ns = now_ns();
    if (!is_overlapped) {
      reducer_.prepare();
    }
    reducer_.finish();
    return read_record(start_ns, backward_end_ns);
  }

 private:
  static constexpr int64_t kFirstTokens = 256;

  StepTimes read_record(int64_t start_ns, int64_t backward_end_ns) const {
    int64_t first_reduction_ns = INT64_MAX;
    int64_t exposed_ns = 0;
    for (const Event& event : recorder_.events()) {
      if (event.step != step_ || event.start_ns < start_ns) {
        continue;
      }
      if (event.kind == EventKind::kCollective) {
        first_reduction_ns = std::min(first_reduction_ns, event.start_ns);
      } else if (event.kind == EventKind::kWait) {
        exposed_ns += event.end_ns - event.start_ns;
      }
    }
    const int64_t last_gradient_ns =
        std::min(gradient_ns_.back(), backward_end_ns);
    return {.backward = shortest_backward_ms(start_ns),
            .lead = double(last_gradient_ns - first_reduction_ns) * 1e-6,
            .exposed = double(exposed_ns) * 1e-6};
  }

  double shortest_backward_ms(int64_t start_ns) const {
    double shortest = INFINITY;
    for (int64_t time : gradient_ns_) {
      shortest = std::min(shortest, double(time - start_ns) * 1e-6);
      start_ns = time;
    }
    return shortest;
  }

  const std::shared_ptr<Board> board_;
  Group& dp_;
  const int rank_;
  Recorder recorder_;
  Chain chain_;
  FlatBuffer gradients_;
  ReplicaGroups groups_;
  BucketReducer reducer_;
  std::vector<int64_t> gradient_ns_;  // when each bucket's gradient was there
  int64_t step_ = 0;
};

int run_rank(const std::shared_ptr<Board>& board,
             std::unique_ptr<Group> world,
             int num_steps) {
  at::set_num_threads(1);
  const int world_rank = world->rank();
  const auto dp = world->split(0, world_rank, "dp");
  OverlapRank rank(board, *dp, world_rank);
  const int64_t num_tokens = rank.fit_tokens();
  rank.step(true);
  std::vector<double> backward, lead, exposed, serial;
  for (int i = 0; i < num_steps; ++i) {
    const StepTimes overlapped = rank.step(true);
    backward.push_back(overlapped.backward);
    lead.push_back(overlapped.lead);
    exposed.push_back(overlapped.exposed);
    serial.push_back(rank.step(false).exposed);
  }
  const Json line = {{"ranks", kNumRanks},
                     {"buckets", kNumBuckets},
                     {"tokens", num_tokens},
                     {"steps", num_steps},
                     {"all_reduce_ms", kReduceSeconds * 1e3},
                     {"backward_ms", -max_over(*dp, -median(backward))},
                     {"lead_ms", -max_over(*dp, -median(lead))},
                     {"overlapped_exposed_ms", max_over(*dp, median(exposed))},
                     {"serial_exposed_ms", max_over(*dp, median(serial))}};
  if (world_rank == 0) {
    std::printf("%s\n", dump_json(line).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Reductions behind the backward pass");
  int num_steps = 20;
  app.add_option("--steps", num_steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const auto board = Board::create(kNumRanks);
  const auto world = make_local_world(kNumRanks, {.board = board});
  return fork_ranks({.board = board}, [&](int rank) {
    return run_rank(board, world->join(rank), num_steps);
  });
}
