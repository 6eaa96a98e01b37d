# SPDX-License-Identifier: Apache-2.0
"""What triax claims of its speed and memory, by name."""
import shutil

import sides
from claim import LLAMA, Claim, Point, model_of, require_step_programs, steps_of
from offload_memory import offload_memory
from sides import (PEER, TRIAX, collectives_side, first_step_side, peer_side,
                   program_side, require, triax_side)
from zero_claims import zero, zero_memory, zero_peers

COLLECTIVES = "build/bench/collectives_bench"
MPI_PEER = "build/bench/collectives_mpi"
OVERLAP = "build/bench/overlap_bench"
OFFLOAD = "build/bench/offload_bench"
PRECISIONS = {"fp32": [], "bf16_autocast": ["--bf16"]}  # the peer's flags


def step_one_rank(is_quick):
    require_step_programs(with_peer=True)
    model, overrides = model_of(is_quick)
    steps = steps_of(is_quick)
    claim = Claim("step_one_rank",
                  "A training step on one rank of two threads, against "
                  "PyTorch with Hugging Face's model", [], [])
    for precision, flags in PRECISIONS.items():
        theirs, ours = f"torch {precision}", f"triax {precision}"
        claim.sides += [
            peer_side(theirs, "single", model,
                      ["--threads", "2", "--steps", str(steps)] + flags),
            triax_side(ours, LLAMA, [f"training.precision={precision}",
                                     f"training.steps={steps}"] + overrides)]
        claim.points.append(
            Point(precision, "tokens_per_s", "tokens/s", ours, theirs, 0.95))
        claim.alike.append((ours, theirs))
    return claim


def _step_pair(name, title, mode, layout, is_quick, accum=1,
               precisions=tuple(PRECISIONS)):
    require_step_programs(with_peer=True)
    model, overrides = model_of(is_quick)
    steps = steps_of(is_quick)
    claim = Claim(name, title, [], [])
    for precision in precisions:
        theirs = f"torch {mode} {precision}"
        ours = f"triax {layout.replace('=', '')[-3:]} {precision}"
        claim.sides += [
            peer_side(theirs, mode, model,
                      ["--ranks", "2", "--steps", str(steps),
                       "--accum", str(accum)] + PRECISIONS[precision]),
            triax_side(ours, LLAMA,
                       [layout, f"training.precision={precision}",
                        f"training.gradient_accumulation_steps={accum}",
                        f"training.steps={steps}"] + overrides)]
        claim.points.append(
            Point(precision, "tokens_per_s", "tokens/s", ours, theirs, 1.0))
        claim.alike.append((ours, theirs))
    return claim


def step_dp2(is_quick):
    return _step_pair("step_dp2", "Two replicas of one thread, against "
                      "PyTorch's DistributedDataParallel over Gloo", "ddp",
                      "parallel.dp=2", is_quick)


def step_tp2(is_quick):
    return _step_pair("step_tp2", "Each layer split over two ranks of one "
                      "thread, against PyTorch's DTensor over Gloo", "tp",
                      "parallel.tp=2", is_quick)


def step_pp2(is_quick):
    return _step_pair("step_pp2", "Two stages of one thread and four "
                      "microbatches, against PyTorch's Schedule1F1B over Gloo",
                      "pp", "parallel.pp=2", is_quick, accum=4,
                      precisions=("fp32",))  # the peer has no bf16 there


def layouts(is_quick):
    """Ours against ours: what the layouts cost on the same two cores."""
    require_step_programs(with_peer=False)
    _, overrides = model_of(is_quick)
    common = [f"training.steps={steps_of(is_quick)}"] + overrides
    claim = Claim("layouts", "Two ranks of one thread against one rank of two "
                  "threads, the same global batch on the same two cores",
                  [], [])
    microbatches = 8
    bubble = (2 - 1) / (microbatches + 2 - 1)
    cases = [
        ("dp2", ["parallel.dp=2"], ["training.microbatch_size=4"], 0.95, 1.0,
         "two sequences a replica; one rank takes all four at once"),
        ("tp2", ["parallel.tp=2"], [], 0.85, 1.0, ""),
        ("pp2", ["parallel.pp=2"], [], 0.88, 1 / (1 - bubble),
         f"{microbatches} microbatches; the bubble of "
         f"{100 * bubble:.1f} % is taken off")]
    for name, layout, alone, target, factor, note in cases:
        batch = ([f"training.gradient_accumulation_steps={microbatches}"]
                 if name == "pp2" else [])
        theirs, ours = f"dp1 for {name}", name
        claim.sides += [triax_side(theirs, LLAMA, alone + batch + common),
                        triax_side(ours, LLAMA, layout + batch + common)]
        claim.points.append(Point(name, "tokens_per_s", "tokens/s", ours,
                                  theirs, target, factor=factor, note=note))
        claim.alike.append((ours, theirs))
    return claim


def memory_modes(is_quick):
    """What saving memory costs: ours against ours, on the same two cores."""
    require_step_programs(with_peer=False)
    _, overrides = model_of(is_quick)
    common = [f"training.steps={steps_of(is_quick)}"] + overrides
    claim = Claim("memory_modes", "Recompute and sequence parallelism against "
                  "the same run without them", [], [])
    cases = [
        ("selective", [], ["memory.recompute=selective"], 0.93),
        ("full", [], ["memory.recompute=full"], 0.74),
        ("sequence parallel, tp2", ["parallel.tp=2"],
         ["parallel.sequence_parallel=true"], 0.97)]
    for name, layout, mode, target in cases:
        theirs = f"without, for {name}"
        claim.sides += [triax_side(theirs, LLAMA, layout + common),
                        triax_side(name, LLAMA, layout + mode + common)]
        claim.points.append(Point(name, "tokens_per_s", "tokens/s", name,
                                  theirs, target))
        claim.alike.append((name, theirs))
    return claim


# ---- collectives

KIB, MIB = 1 << 10, 1 << 20


def _size_name(nbytes):
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"


def _gloo_target(ranks, nbytes):
    if nbytes == KIB:
        return 50
    return {2: 4, 4: 3, 8: 2.5}[ranks] if nbytes == 64 * MIB else None


def _collective_sides(ranks, largest, has_mpi):
    most = str(largest)
    result = [collectives_side(
        f"gloo, {ranks} ranks",
        [PEER[0], "bench/collectives_gloo.py", "--ranks", str(ranks),
         "--max-bytes", most])]
    if has_mpi:
        result.append(collectives_side(
            f"mpi, {ranks} ranks",
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to",
             "none", "-n", str(ranks), MPI_PEER, "1024", most]))
    result.append(collectives_side(
        f"triax, {ranks} ranks",
        [COLLECTIVES, "--ranks", str(ranks), "--max-bytes", most]))
    return result


def _collective_points(ranks, sizes, has_mpi):
    points = []
    ours = f"triax, {ranks} ranks"
    for peer in ("gloo", "mpi") if has_mpi else ("gloo",):
        for nbytes in sizes:
            target = (_gloo_target(ranks, nbytes) if peer == "gloo"
                      else 1.0 if nbytes >= 256 * KIB else 0.25)
            points.append(Point(
                f"{ranks} ranks, {_size_name(nbytes)}, against {peer}",
                f"r{ranks}_b{nbytes}", "µs", ours, f"{peer}, {ranks} ranks",
                target, is_higher_better=False))
    return points


def collectives(is_quick):
    require(COLLECTIVES, "run `make bench`")
    require(PEER[0], "run tools/setup_bench.sh")
    has_mpi = (sides.exists(MPI_PEER) and shutil.which("mpirun") is not None)
    claim = Claim("collectives", "all_reduce of fp32 on one host, against "
                  "PyTorch's Gloo and Open MPI", [], [], rounds=3)
    if not has_mpi:
        claim.notes.append(
            "Not compared with MPI: none was found when this was built.")
    largest = 256 * KIB if is_quick else 64 * MIB
    sizes = [KIB * 4**i for i in range(9) if KIB * 4**i <= largest]
    for ranks in (2,) if is_quick else (2, 4, 8):
        claim.sides += _collective_sides(ranks, largest, has_mpi)
        claim.points += _collective_points(ranks, sizes, has_mpi)
    return claim


# ---- others

def first_step(is_quick):
    del is_quick
    require(TRIAX, "run `make build`")
    require("data/kjv.txt", "run `make data`")
    return Claim("first_step", "From the command to the end of the first step "
                 "of the README's job", [first_step_side(
                     "triax", "configs/kjv.toml")],
                 [Point("first step", "seconds", "s", "triax", None, 1.5,
                        is_higher_better=False)], rounds=10)


def overlap(is_quick):
    require(OVERLAP, "run `make bench`")
    side = program_side("triax", [OVERLAP, "--steps", "2" if is_quick else "20"])
    return Claim(
        "overlap", "Reductions behind the backward pass: two replicas, four "
        "buckets, a link on which each all_reduce takes 20 ms", [side],
        [Point("backward of a bucket, at least", "backward_ms", "ms", "triax",
               None, 30),
         Point("first reduction before the last gradient", "lead_ms", "ms",
               "triax", None, 0, note="more than 0"),
         Point("exposed wait a step", "overlapped_exposed_ms", "ms", "triax",
               None, 30, is_higher_better=False,
               note="1.5 buckets; 20 ms can never hide"),
         Point("exposed wait without overlap", "serial_exposed_ms", "ms",
               "triax", None, None, note="four buckets")], rounds=3)


def offload(is_quick):
    require(OFFLOAD, "run `make bench`")
    side = program_side(
        "triax", [OFFLOAD, "--dir", "build", "--megabytes",
                  "16" if is_quick else "1024", "--steps",
                  "1" if is_quick else "5"])
    return Claim(
        "offload", "An AdamW step whose state lies on file, against the longer "
        "of the same step in memory and its bytes by the disk's speed", [side],
        [Point("step with the state on file ÷ the longer of the two",
               "over_bound", "×", "triax", None, 1.1, is_higher_better=False),
         Point("step in memory", "in_memory_ms", "ms", "triax", None, None),
         Point("the state read and written, no more", "disk_ms", "ms", "triax",
               None, None),
         Point("step with the state on file", "offloaded_ms", "ms", "triax",
               None, None)], rounds=3)


CLAIMS = {claim.__name__: claim for claim in (
    step_one_rank, step_dp2, step_tp2, step_pp2, layouts, zero, zero_peers,
    zero_memory, memory_modes, collectives, first_step, overlap, offload,
    offload_memory)}
