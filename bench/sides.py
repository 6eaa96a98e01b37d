# SPDX-License-Identifier: Apache-2.0
"""The programs that are compared, each with its command and how its output is
read. A side's measure() runs the command once and returns {key: value}."""
import contextlib
import dataclasses
import json
import os
import shlex
import signal
import statistics
import subprocess
import tempfile
import time
from typing import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRIAX = "build/bin/triax"
TRAINING_MEMORY = "build/bench/training_memory_bench"
PEER = [".venv-bench/bin/python", "bench/peers/peer.py"]
TIMEOUT_SECONDS = 900
FIRST_STEP_SECONDS = 60


class BenchError(Exception):
    """A program is missing or failed."""


@dataclasses.dataclass
class Side:
    label: str
    command: list[str]  # run from the repository's folder
    read: Callable[[list[str]], dict[str, float]]

    def text(self):
        return shlex.join(self.command)

    def measure(self):
        return self.read(self.command)


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


def require(path, how):
    if not exists(path):
        raise BenchError(f"{path} is missing; {how}")


def _communicate(process):
    """Its output; when that takes too long or we are stopped, the process and
    what it started are killed."""
    try:
        return process.communicate(timeout=TIMEOUT_SECONDS)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


def run_command(command):
    """Standard output of a command that must end well."""
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True)
        output, errors = _communicate(process)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{shlex.join(command)} was still running after "
                         f"{TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise BenchError(f"{shlex.join(command)}: {error.strerror}") from None
    if process.returncode != 0:
        tail = "\n".join((errors or output).splitlines()[-15:])
        raise BenchError(f"{shlex.join(command)} ended with "
                         f"{process.returncode}:\n{tail}")
    return output


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()
            if line.startswith("{")]


# ---- steps

def _read_peer(command):
    line = json_lines(run_command(command))[-1]
    return {"tokens_per_s": line["tokens_per_s"],
            "first_loss": line["losses"][0]}


def peer_side(label, mode, model, arguments):
    command = PEER + [mode, model] + arguments
    return Side(label, command, _read_peer)


def read_metrics(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def _read_triax(command):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        run_command(command + ["--quiet", f"run.dir={run_dir}"])
        steps = read_metrics(os.path.join(run_dir, "metrics.jsonl"))
    counted = statistics.median(step["step_seconds"] for step in steps[1:])
    return {"tokens_per_s": steps[1]["tokens"] / counted,
            "first_loss": steps[0]["loss"]}


def triax_side(label, run_file, overrides):
    command = [TRIAX, "train", run_file] + overrides
    return Side(label, command, _read_triax)


# ---- memory

def _read_peer_memory(command):
    line = json_lines(run_command(command))[-1]
    return {"grown_mib": line["grown_rss_mb"], "first_loss": line["losses"][0]}


def peer_memory_side(label, prefix, mode, model, arguments):
    command = prefix + PEER + [mode, model] + arguments
    return Side(label, command, _read_peer_memory)


def _read_triax_memory(command):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        ranks = json_lines(run_command(command + [f"run.dir={run_dir}"]))
        steps = read_metrics(os.path.join(run_dir, "metrics.jsonl"))
    return {"grown_mib": max(rank["grown"] for rank in ranks) / 2**20,
            "first_loss": steps[0]["loss"]}


def triax_memory_side(label, prefix, run_file, overrides):
    command = prefix + [TRAINING_MEMORY, run_file] + overrides
    return Side(label, command, _read_triax_memory)


# ---- the first step

@contextlib.contextmanager
def _running(command):
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _has_line(path):
    try:
        with open(path) as file:
            return file.readline().endswith("\n")
    except FileNotFoundError:
        return False


def _read_first_step(command):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        metrics = os.path.join(run_dir, "metrics.jsonl")
        start = time.perf_counter()
        with _running(command + ["--quiet", f"run.dir={run_dir}"]) as process:
            while not _has_line(metrics):
                seconds = time.perf_counter() - start
                if process.poll() is not None or seconds > FIRST_STEP_SECONDS:
                    raise BenchError(f"{shlex.join(command)}: no step was "
                                     f"done after {seconds:.1f} s")
                time.sleep(0.002)
            return {"seconds": time.perf_counter() - start}


def first_step_side(label, run_file):
    return Side(label, [TRIAX, "train", run_file], _read_first_step)


# ---- collectives and other programs that print JSON

def _read_collectives(command):
    return {f"r{line['ranks']}_b{line['bytes']}": line["median_us"]
            for line in json_lines(run_command(command))}


def collectives_side(label, command):
    return Side(label, command, _read_collectives)


def _read_numbers(command):
    line = json_lines(run_command(command))[-1]
    return {key: value for key, value in line.items()
            if isinstance(value, (int, float))}


def program_side(label, command):
    return Side(label, command, _read_numbers)
