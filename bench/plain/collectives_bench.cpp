// SPDX-License-Identifier: Apache-2.0
// Median microseconds of an operation of the local transport, one JSON line
// for each op, number of ranks and size:
//   collectives_bench [--ranks 2,4,8] [--ops all_reduce,…] [--min-bytes N]
//   [--max-bytes N]
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "triax/base/error.h"
#include "triax/comm/local.h"

namespace {

using namespace triax;

double now_us() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(time).count();
}

/// One operation on a tensor of `bytes` bytes of fp32 (the full tensor).
void run_once(Group& group, const std::string& op, float* full, int64_t bytes) {
  const int64_t numel = bytes / 4;
  const int64_t part = numel / group.size();
  const Buffer all{full, part * group.size()};
  const Buffer mine{full + group.rank() * part, part};
  if (op == "all_reduce") {
    group.all_reduce({full, numel});
  } else if (op == "all_gather") {
    group.all_gather(mine, all);
  } else if (op == "reduce_scatter") {
    group.reduce_scatter(all, mine);
  } else if (op == "broadcast") {
    group.broadcast({full, numel}, 0);
  } else if (op == "send_recv") {
    const int peer = group.rank() ^ 1;
    if (peer < group.size()) {
      group.rank() < peer ? group.send({full, numel}, peer)
                          : group.recv({full, numel}, peer);
    }
  } else {
    throw Error("op ", op, " is unknown");
  }
}

double measure_median_us(Group& group, const std::string& op, int64_t bytes) {
  std::vector<float> full(size_t(bytes / 4), 0.5f);
  const int64_t num_runs =
      std::clamp<int64_t>((int64_t(256) << 20) / bytes, 9, 1000);
  std::vector<double> times;
  for (int64_t i = 0; i < num_runs + num_runs / 5 + 2; ++i) {
    group.barrier();
    const double start = now_us();
    run_once(group, op, full.data(), bytes);
    if (i >= num_runs / 5 + 2) {
      times.push_back(now_us() - start);
    }
  }
  std::nth_element(
      times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  double median = times[times.size() / 2];
  group.all_reduce({&median, 1, DType::kFloat64}, ReduceOp::kMax);
  return median;
}

void run_rank(Group& group,
              const std::vector<std::string>& ops,
              int64_t min_bytes,
              int64_t max_bytes) {
  for (const std::string& op : ops) {
    for (int64_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
      if (bytes < min_bytes) {
        continue;
      }
      const double median = measure_median_us(group, op, bytes);
      if (group.rank() == 0) {
        std::printf(
            "{\"transport\": \"triax\", \"op\": \"%s\", \"ranks\": %d, "
            "\"bytes\": %lld, \"median_us\": %.2f}\n",
            op.c_str(),
            group.size(),
            static_cast<long long>(bytes),
            median);
        std::fflush(stdout);
      }
    }
  }
}

/// Forks `num_ranks` ranks; whether all of them ended well.
bool run_world(int num_ranks, const std::function<void(Group&)>& rank_main) {
  const auto world = make_local_world(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (fork() == 0) {
      try {
        rank_main(*world->join(rank));
        _exit(0);
      } catch (const std::exception& error) {
        world->board()->fail(rank, error.what());
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        _exit(1);
      }
    }
  }
  bool is_good = true;
  for (int rank = 0; rank < num_ranks; ++rank) {
    int status = 0;
    wait(&status);
    is_good = is_good && status == 0;
  }
  return is_good;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times of the local transport");
  std::vector<int> ranks = {2, 4, 8};
  std::vector<std::string> ops = {"all_reduce"};
  int64_t min_bytes = 1024;
  int64_t max_bytes = int64_t(64) << 20;
  app.add_option("--ranks", ranks)->delimiter(',');
  app.add_option("--ops", ops)->delimiter(',');
  app.add_option("--min-bytes", min_bytes);
  app.add_option("--max-bytes", max_bytes);
  CLI11_PARSE(app, argc, argv);
  bool is_good = true;
  for (int num_ranks : ranks) {
    is_good = run_world(num_ranks,
                        [&](Group& group) {
                          run_rank(group, ops, min_bytes, max_bytes);
                        }) &&
              is_good;
  }
  return is_good ? 0 : 1;
}
