// SPDX-License-Identifier: Apache-2.0
// The peer of collectives_bench: the MPI that CMake found. Prints the same
// JSON lines for the number of ranks it is started with:
//   mpirun --oversubscribe -n 4 collectives_mpi [min_bytes [max_bytes]]
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double measure_median_us(int64_t bytes) {
  std::vector<float> full(size_t(bytes / 4), 0.5f);
  const int64_t num_runs =
      std::clamp<int64_t>((int64_t(256) << 20) / bytes, 9, 1000);
  std::vector<double> times;
  for (int64_t i = 0; i < num_runs + num_runs / 5 + 2; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE,
                  full.data(),
                  int(full.size()),
                  MPI_FLOAT,
                  MPI_SUM,
                  MPI_COMM_WORLD);
    if (i >= num_runs / 5 + 2) {
      times.push_back((MPI_Wtime() - start) * 1e6);
    }
  }
  std::nth_element(
      times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  double median = times[times.size() / 2];
  MPI_Allreduce(MPI_IN_PLACE, &median, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return median;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int num_ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  const int64_t min_bytes = argc > 1 ? std::atoll(argv[1]) : 1024;
  const int64_t max_bytes = argc > 2 ? std::atoll(argv[2]) : 64 << 20;
  for (int64_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
    if (bytes < min_bytes) {
      continue;
    }
    const double median = measure_median_us(bytes);
    if (rank == 0) {
      std::printf(
          "{\"transport\": \"mpi\", \"op\": \"all_reduce\", \"ranks\": %d, "
          "\"bytes\": %lld, \"median_us\": %.2f}\n",
          num_ranks,
          static_cast<long long>(bytes),
          median);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
