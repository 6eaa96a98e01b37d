# SPDX-License-Identifier: Apache-2.0
"""Claims of ZeRO: replicas that split what each of them would keep."""
import re
import subprocess

from claim import (LLAMA, TINY, Claim, Point, model_of, require_step_programs,
                   steps_of)
from sides import (ROOT, TRAINING_MEMORY, TRIAX, BenchError, peer_memory_side,
                   peer_side, require, triax_memory_side, triax_side)

LLAMA_M = ["model.hidden_size=768", "model.intermediate_size=2048",
           "model.num_hidden_layers=12", "model.num_attention_heads=12"]
# The first step makes the peers' optimizer state.
MEMORY_STEPS = 3
# What a command is started with.
HEAPS = {"plain heap": [],
         "own pages": ["env", f"MALLOC_MMAP_THRESHOLD_={1 << 20}"]}
REFUSED = "Zero 3 was not measured: this build refuses parallel.zero=3."


def _dry_run(overrides):
    return subprocess.run([TRIAX, "train", LLAMA, "--dry-run"] + overrides,
                          cwd=ROOT, capture_output=True, text=True, check=False)


def _is_accepted(stage):
    return _dry_run(["parallel.dp=2", f"parallel.zero={stage}"]).returncode == 0


def _stages():
    return [stage for stage in (1, 2, 3) if stage < 3 or _is_accepted(stage)]


def _add_refusal(claim, stages):
    if 3 not in stages:
        claim.notes.append(REFUSED)
    return claim


def predicted_mib(overrides):
    """What --dry-run says of the only stage: the formulae of
    plan/memory_model. The rows are added, since a total in GiB is too coarse.
    """
    result = _dry_run(overrides)
    rows = re.findall(r"^(\w+) +([\d.]+) ([KM]?i?B)\b", result.stdout, re.M)
    rows = [row for row in rows if row[0] != "total"]
    if result.returncode != 0 or not rows or "GiB  " in result.stdout:
        raise BenchError(f"--dry-run {' '.join(overrides)} has no rows below "
                         f"1 GiB: {result.stderr or result.stdout}")
    units = {"B": 2**-20, "KiB": 2**-10, "MiB": 1}
    return sum(float(number) * units[unit] for _, number, unit in rows)


def zero(is_quick):
    """Ours against ours: what it costs to split what replicas keep."""
    require_step_programs(with_peer=False)
    _, overrides = model_of(is_quick)
    common = ["parallel.dp=2", f"training.steps={steps_of(is_quick)}"]
    common += overrides
    claim = Claim("zero", "Two replicas of one thread that split optimizer "
                  "state (zero 1), gradients (zero 2) and parameters (zero 3), "
                  "against two that do not", [], [])
    plain = "dp2"
    claim.sides.append(triax_side(plain, LLAMA, common))
    stages = _stages()
    for stage in stages:
        ours = f"dp2_zero{stage}"
        claim.sides.append(triax_side(
            ours, LLAMA, [f"parallel.zero={stage}"] + common))
        claim.points.append(Point(f"zero {stage}", "tokens_per_s", "tokens/s",
                                  ours, plain, 0.9 if stage == 3 else 0.97,
                                  note="one microbatch a step"))
        claim.alike.append((ours, plain))
    return _add_refusal(claim, stages)


def zero_peers(is_quick):
    """The same stage on both sides; FSDP2 is stage 3."""
    require_step_programs(with_peer=True)
    model, overrides = model_of(is_quick)
    steps = steps_of(is_quick)
    claim = Claim("zero_peers", "Two replicas of one thread with ZeRO, against "
                  "DeepSpeed's and PyTorch's FSDP2 over Gloo", [], [])
    stages = _stages()
    for stage in stages:
        peers = {"DeepSpeed": f"ds{stage}"}
        if stage == 3:
            peers["FSDP2"] = "fsdp2"
        ours = f"triax zero {stage}"
        for name, mode in peers.items():
            theirs = f"{name}, for zero {stage}"
            claim.sides.append(peer_side(
                theirs, mode, model, ["--ranks", "2", "--steps", str(steps)]))
            claim.points.append(Point(
                f"zero {stage} against {name}", "tokens_per_s", "tokens/s",
                ours, theirs, 1.15 if stage == 3 else 1.2))
            claim.alike.append((ours, theirs))
        claim.sides.append(triax_side(
            ours, LLAMA, ["parallel.dp=2", f"parallel.zero={stage}",
                          f"training.steps={steps}"] + overrides))
    claim.notes.append(
        "DeepSpeed has torch's fused AdamW (its own CPU Adam takes as long), "
        "buckets of 25 MiB as triax has and no overlap_comm, each of them "
        "faster here than its defaults.")
    return _add_refusal(claim, stages)


def _run_of(dp, stage, overrides):
    return [f"parallel.dp={dp}", f"parallel.zero={stage}",
            f"training.steps={MEMORY_STEPS}"] + overrides


def _add_memory(claim, dp, stages, heap, is_quick):
    """FSDP2, and ours in each stage. What a stage saves can only be told where
    the heap has no holes."""
    model, overrides = ("llama-tiny", TINY) if is_quick else ("llama-m", LLAMA_M)
    theirs = f"FSDP2 on {dp} ranks, {heap}"
    flags = ["--ranks", str(dp), "--steps", str(MEMORY_STEPS)]
    claim.sides.append(
        peer_memory_side(theirs, HEAPS[heap], "fsdp2", model, flags))
    is_exact = bool(HEAPS[heap])

    def label_of(stage):
        return f"triax dp {dp} zero {stage}, {heap}"

    for stage in [0] + stages if is_exact else [s for s in stages if s == 3]:
        run = _run_of(dp, stage, overrides)
        claim.sides.append(
            triax_memory_side(label_of(stage), HEAPS[heap], LLAMA, run))
        claim.alike.append((label_of(stage), theirs))
    if 3 in stages:
        claim.points.append(Point(
            f"dp {dp}: zero 3 against FSDP2, {heap}", "grown_mib", "MiB",
            label_of(3), theirs, 0.9, kind="share"))
    if is_exact:
        whole = predicted_mib(_run_of(dp, 0, overrides))
        for stage in stages:
            saved = whole - predicted_mib(_run_of(dp, stage, overrides))
            claim.points.append(Point(
                f"dp {dp}: zero {stage} against zero 0", "grown_mib", "MiB",
                label_of(stage), label_of(0), 0.05, kind="saving",
                expected=saved, note=f"--dry-run says {saved:.0f} MiB less"))


def zero_memory(is_quick):
    """By how much the rank that grows most grows: VmHWM after the last step
    less VmRSS just before the model is made, on both sides."""
    require_step_programs(with_peer=True)
    require(TRAINING_MEMORY, "run `make bench`")
    stages = _stages()
    claim = Claim(
        "zero_memory", "Peak memory of a rank with ZeRO, against PyTorch's "
        "FSDP2 over Gloo and against replicas that keep everything", [], [],
        rounds=3, notes=[
            "Memory is VmHWM after the last step less VmRSS just before the "
            "model is made, of the rank where that is most; a shared page "
            "counts in every rank that has touched it. \"Plain heap\": glibc's "
            "malloc as it comes, whose heap has holes at the peak. \"Own "
            "pages\": each tensor has pages of its own, on both sides."])
    for heap in HEAPS:
        for dp in (2,) if is_quick else (2, 4):
            if HEAPS[heap] or 3 in stages:
                _add_memory(claim, dp, stages, heap, is_quick)
    return _add_refusal(claim, stages)
