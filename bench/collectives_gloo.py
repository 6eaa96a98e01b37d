#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of collectives_bench: torch.distributed's Gloo on one host.

Prints the same JSON lines. Runs with the Python that has torch:
  collectives_gloo.py [--ranks 2,4,8] [--max-bytes N] [--min-bytes N]
"""
import argparse
import json
import os
import statistics
import tempfile
import time


def run_rank(rank, size, store, sizes, seconds):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    for nbytes in sizes:
        full = torch.full((nbytes // 4,), 0.5)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(full)
        once = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(once, op=dist.ReduceOp.MAX)
        runs = max(5, min(200, int(seconds / once.item())))
        times = []
        for _ in range(runs):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(full)
            times.append(time.perf_counter() - start)
        median = torch.tensor([statistics.median(times)], dtype=torch.float64)
        dist.all_reduce(median, op=dist.ReduceOp.MAX)
        if rank == 0:
            print(json.dumps({
                "transport": "gloo", "op": "all_reduce", "ranks": size,
                "bytes": nbytes, "median_us": round(median.item() * 1e6, 2),
            }), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run_world(size, sizes, seconds):
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(run_rank, args=(size, store, sizes, seconds), nprocs=size)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--min-bytes", type=int, default=1 << 10)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="time for each size, about")
    options = parser.parse_args()
    sizes = []
    nbytes = 1 << 10
    while nbytes <= options.max_bytes:
        if nbytes >= options.min_bytes:
            sizes.append(nbytes)
        nbytes *= 4
    for size in map(int, options.ranks.split(",")):
        run_world(size, sizes, options.seconds)


if __name__ == "__main__":
    main()
