// SPDX-License-Identifier: Apache-2.0
// An optimizer step whose state lies on file, against the same step in memory
// and the disk: what it may take is the longer of the step's arithmetic and the
// bytes by the disk's speed. AdamW over fp32, one rank. Prints one JSON line;
// times are medians over the steps, and the three take turns:
//   offload_bench [--dir DIR] [--megabytes M] [--steps N]
// The disk's speed is that of reading and writing at once, as an update does:
// whole MiB, eight under way either way, past the page cache.
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "triax/base/json.h"
#include "triax/base/rounding.h"
#include "triax/memory/io_buffer.h"
#include "triax/optim/optimizer.h"

namespace {

using namespace triax;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kNumStates = 2;
constexpr int64_t kUnderWay = 8;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Function>
double seconds_of(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Reads and writes all of a file once, a MiB at a time.
class Disk {
 public:
  Disk(const std::string& dir, int64_t nbytes) : file_(dir, nbytes) {
    for (int64_t i = 0; i < 2 * kUnderWay; ++i) {
      buffers_.push_back(make_io_buffer(kMiB));
      buffers_.back().fill_(static_cast<int>(i));
    }
    move(/*reads=*/false);  // blocks that were never written read faster
  }

  void move(bool reads = true) {
    std::vector<IoRequest> under_way(2 * kUnderWay);
    for (int64_t i = 0; i < file_.nbytes() / kMiB; ++i) {
      const int64_t read = i % kUnderWay;
      const int64_t write = kUnderWay + read;
      under_way[write].wait();
      under_way[write] =
          file_.write(i * kMiB, buffers_[write].data_ptr(), kMiB);
      if (reads) {
        under_way[read].wait();
        // The other half: what is read is not on its way to the disk.
        const int64_t half = file_.nbytes() / kMiB / 2;
        const int64_t place = (i + half) % (file_.nbytes() / kMiB);
        under_way[read] =
            file_.read(place * kMiB, buffers_[read].data_ptr(), kMiB);
      }
    }
    for (IoRequest& request : under_way) {
      request.wait();
    }
  }

  const SpillFile& file() const { return file_; }

 private:
  SpillFile file_;
  std::vector<at::Tensor> buffers_;
};

struct Options {
  std::string dir = ".";
  int64_t megabytes = 512;  // of state
  int num_steps = 5;
};

Json measure(const Options& options) {
  const int64_t numel = options.megabytes * kMiB / (kNumStates * 4);
  const std::vector<OptimizedTensor> tensors = {
      {.parameter = at::randn({numel}), .gradient = at::randn({numel})}};
  SpilledArrays arrays(options.dir,
                       round_up(numel, kSpillAlignment),
                       {{"exp_avg", at::kFloat}, {"exp_avg_sq", at::kFloat}});
  const OffloadedOptimizer on_file = {
      .file = &arrays, .places = {{0, numel}}, .states = {0, 1}};
  AdamW offloaded(tensors, {}, &on_file);
  AdamW in_memory(tensors, {});
  Disk disk(options.dir, arrays.nbytes());
  std::vector<double> memory, file, raw;
  for (int step = -1; step < options.num_steps; ++step) {
    const double in = seconds_of([&] { in_memory.step(1e-3); });
    const double out = seconds_of([&] { offloaded.step(1e-3); });
    const double moved = seconds_of([&] { disk.move(); });
    if (step >= 0) {
      memory.push_back(in);
      file.push_back(out);
      raw.push_back(moved);
    }
  }
  const double bound = std::max(median(memory), median(raw));
  return {{"state_bytes", arrays.nbytes()},
          {"in_memory_ms", 1e3 * median(memory)},
          {"disk_ms", 1e3 * median(raw)},
          {"disk_bytes_per_s",
           2.0 * static_cast<double>(arrays.nbytes()) / median(raw)},
          {"offloaded_ms", 1e3 * median(file)},
          {"over_bound", median(file) / bound},
          {"engine", std::string(arrays.file().engine_name())},
          {"is_direct", arrays.file().is_direct()}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("An optimizer step with its state on file");
  app.add_option("--dir", options.dir);
  app.add_option("--megabytes", options.megabytes)->check(CLI::Range(8, 65536));
  app.add_option("--steps", options.num_steps)->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  std::printf("%s\n", dump_json(measure(options)).c_str());
  return 0;
}
