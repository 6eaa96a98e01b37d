# SPDX-License-Identifier: Apache-2.0
"""The claim of offload to NVMe: memory and bytes moved, with the same bits."""
import os
import tempfile

from claim import LLAMA, TINY, Claim, Point, require_step_programs
from sides import (ROOT, TRAINING_MEMORY, BenchError, Side, json_lines,
                   read_metrics, require, run_command)

# Read and written in the second step and in the third, in which weights are
# used that an update has written.
STEPS = 3
FOLDER = "build"  # on a disk; a temporary folder may lie in memory
ALL_STATES = ["optimizer", "gradients", "parameters"]
SHORT = ["training.precision=bf16", f"training.steps={STEPS}",
         "training.microbatch_size=1", "data.sequence_length=64"]


def _run(command):
    with tempfile.TemporaryDirectory(
            dir=os.path.join(ROOT, FOLDER)) as folder:
        run_dir = os.path.join(folder, "run")
        ranks = json_lines(run_command(command + [f"run.dir={run_dir}"]))
        steps = read_metrics(os.path.join(run_dir, "metrics.jsonl"))
    return ranks, steps


def _common_values(ranks, steps):
    weights = {rank["weights"] for rank in ranks}
    if len(weights) != 1 or len(steps) != STEPS:
        raise BenchError(f"{len(weights)} kinds of weights on {len(ranks)} "
                         f"ranks after {len(steps)} steps")
    return {"vm_hwm_mib": max(rank["peak"] for rank in ranks) / 2**20,
            "step_seconds": min(step["step_seconds"] for step in steps[1:]),
            "losses": [step["loss"] for step in steps],
            "grad_norms": [step["grad_norm"] for step in steps],
            "weights": weights.pop()}


def _read_in_memory(command):
    return _common_values(*_run(command))


def _reader_on_file(limit):
    """Of the rank where a figure is worst."""
    def read(command):
        ranks, steps = _run(command)
        on_file = steps[-1]["offload"]["file"]
        states = [on_file[rank["rank"]] for rank in ranks]
        return _common_values(ranks, steps) | {
            "state_mib": min(states) / 2**20,
            "state_over_limit": min(states) / limit,
            "vm_hwm_over_limit": max(rank["peak"] for rank in ranks) / limit,
            "read_share": min(rank["read"] / state
                              for rank, state in zip(ranks, states)),
            "written_share": min(rank["written"] / state
                                 for rank, state in zip(ranks, states))}
    return read


def _points(name, on_file, in_memory, state_over_limit):
    def value(what, key, unit, target=None, is_higher_better=False,
              side=on_file):
        return Point(f"{name}: {what}", key, unit, side, None, target,
                     is_higher_better=is_higher_better)

    return [value("state on file ÷ memory.limit", "state_over_limit", "×",
                  state_over_limit, is_higher_better=True),
            value("VmHWM ÷ memory.limit", "vm_hwm_over_limit", "×", 1),
            value("read a step ÷ state on file", "read_share", "×", 0.95,
                  is_higher_better=True),
            value("written a step ÷ state on file", "written_share", "×", 0.95,
                  is_higher_better=True),
            value("state on file", "state_mib", "MiB"),
            value("VmHWM", "vm_hwm_mib", "MiB"),
            value("VmHWM with the state in memory", "vm_hwm_mib", "MiB",
                  side=in_memory),
            value("step", "step_seconds", "s"),
            value("step with the state in memory", "step_seconds", "s",
                  side=in_memory)]


def _add_case(claim, name, overrides, states, limit_mib, state_over_limit):
    overrides = SHORT + overrides
    in_memory, on_file = f"{name}, in memory", f"{name}, on file"
    names = ",".join(f'"{state}"' for state in states)
    program = [TRAINING_MEMORY, "--digest", LLAMA]
    claim.sides += [
        Side(in_memory, program + overrides, _read_in_memory),
        Side(on_file, program + overrides + [
            "memory.offload=nvme", f"memory.offload_states=[{names}]",
            f"memory.offload_dir={FOLDER}", f"memory.limit={limit_mib}MiB"],
             _reader_on_file(limit_mib * 2**20))]
    claim.points += _points(name, on_file, in_memory, state_over_limit)
    claim.equal.append((on_file, in_memory,
                        ["losses", "grad_norms", "weights"]))


def offload_memory(is_quick):
    """States many times a rank's memory.limit, and VmHWM under it."""
    require_step_programs(with_peer=False)
    require(TRAINING_MEMORY, "run `make bench`")
    claim = Claim(
        "offload_memory", "Memory of a rank whose state lies on file, and what "
        "of it is read and written in a step", [], [], rounds=2, notes=[
            "bf16 with fp32 masters. VmHWM after the last step is of the whole "
            "process: program, libraries, data, holes of the heap, and the "
            "shared segments that the rank has touched. Read and written are "
            "read_bytes and write_bytes of /proc/PID/io over a step, the least "
            "of the steps after the first. Of the ranks the worst counts. "
            "Losses, gradient norms and a digest of weights and masters after "
            "the last step are those of the run in memory, bit for bit: "
            "otherwise there is no figure."])
    deep, wide = (TINY, TINY) if is_quick else (
        ["model.num_hidden_layers=48"],
        ["model.hidden_size=1024", "model.intermediate_size=2752",
         "model.num_hidden_layers=20", "model.num_attention_heads=16"])
    _add_case(claim, "all states, zero 3 on dp 2",
              deep + ["parallel.dp=2", "parallel.zero=3",
                      "parallel.bucket_bytes=4MiB"], ALL_STATES, 400, 3)
    _add_case(claim, "optimizer, one rank", wide, ALL_STATES[:1], 1920, 1.5)
    return claim
