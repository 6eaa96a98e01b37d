#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as people use it: whole runs with real ranks.

usage: run_test.py TRIAX   (the path of build/bin/triax)
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRIAX = sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin/triax"
TRIAX = str(pathlib.Path(TRIAX).resolve())

RUN = """
[model]
family = "llama"
hidden_size = 32
intermediate_size = 48
num_hidden_layers = 4
num_attention_heads = 4
vocab_size = 256
max_position_embeddings = 32

[data]
path = "text.txt"
sequence_length = 16
validation = 0.1

[parallel]
tp = 2
pp = 2

[training]
global_batch_size = 8
microbatch_size = 2
steps = 6
validate_every = 3
validation_batches = 1

[optimizer]
warmup_steps = 1
"""


def processes_of(folder):
    """Pids whose working folder is `folder`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == folder:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class RunTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.realpath(self.temporary.name)
        letters = random.Random(7)
        text = "".join(letters.choice("abcdefgh \n") for _ in range(20000))
        self.path("text.txt").write_text(text)
        self.path("run.toml").write_text(RUN)
        self.shared_before = set(os.listdir("/dev/shm"))

    def tearDown(self):
        deadline = time.monotonic() + 10
        while processes_of(self.folder) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_of(self.folder), [])
        self.assertEqual(set(os.listdir("/dev/shm")), self.shared_before)
        self.temporary.cleanup()

    def path(self, name):
        return pathlib.Path(self.folder, name)

    def triax(self, *arguments, **environment):
        return subprocess.run([TRIAX, *arguments], cwd=self.folder,
                              env={**os.environ, **environment},
                              capture_output=True, text=True, timeout=300)

    def start(self, *arguments):
        return subprocess.Popen([TRIAX, *arguments], cwd=self.folder,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def metrics(self, run):
        lines = self.path(f"{run}/metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def wait_for_step(self, process, step):
        seen = ""
        for line in process.stderr:
            seen += line
            if line.startswith(f"step {step}/"):
                return seen
        self.fail(f"ended before step {step}: {seen}")

    def ranks_of(self, process):
        """The ranks' pids, by the order in which they were forked."""
        children = []
        for pid in processes_of(self.folder):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"triax-run" in command:
                children.append(pid)
        return sorted(children)[1:]  # the first is their parent

    def test_trains_and_leaves_a_run_folder(self):
        result = self.triax("train", "run.toml", "run.dir=out")
        self.assertEqual(result.returncode, 0, result.stderr)
        metrics = self.metrics("out")
        self.assertEqual([m["step"] for m in metrics], [1, 2, 3, 4, 5, 6])
        for key in ("loss", "grad_norm", "lr", "tokens", "tokens_per_second",
                    "step_seconds", "mfu", "memory_peak_bytes"):
            self.assertIn(key, metrics[0])
        self.assertLess(metrics[-1]["loss"], metrics[0]["loss"])
        self.assertIn("validation_loss", metrics[2])
        self.assertEqual(metrics[0]["tokens"], 8 * 16)
        self.assertRegex(result.stderr, r"step 6/6  loss \d+\.\d{4}  norm ")
        self.assertIn("sample: ", result.stderr)
        self.assertEqual(len(self.path("out/sample.txt").read_bytes()),
                         4 + 240 + 1)
        logs = sorted(p.name for p in self.path("out/logs").iterdir())
        self.assertEqual(logs, [f"rank{r:04d}.log" for r in range(4)])

    def test_accounts_for_each_ranks_memory(self):
        result = self.triax("train", "run.toml", "run.dir=out")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in self.metrics("out"):
            memory = line["memory_at_peak"]
            self.assertEqual(len(memory), 7)
            totals = memory.pop("total")
            self.assertEqual(totals, [sum(r) for r in zip(*memory.values())])
            self.assertEqual(len(totals), 4)
            for category, ranks in memory.items():
                self.assertGreater(min(ranks), 0, category)
        # The embedding of the first stage is as large as the last one's head.
        self.assertRegex(result.stderr, r"step 1/6 .*\n  memory of rank \d "
                         r"\(dp 0, pp \d, tp \d\), the one with most: \S+ MiB "
                         r"at its peak, predicted \S+ KiB and communication; "
                         r"parameters ")

    def test_the_total_is_what_a_larger_model_adds_to_the_process(self):
        """A small run's peak is the program's own memory, but for its total."""
        one_rank = ["parallel.tp=1", "parallel.pp=1", "training.steps=2",
                    "training.validate_every=0", "training.global_batch_size=4"]
        larger = ["model.hidden_size=384", "model.intermediate_size=1032",
                  "model.max_position_embeddings=64",
                  "data.sequence_length=64"]
        resident, total = [], []
        for name, sizes in (("small", []), ("large", larger)):
            # Tensors with pages of their own: the heap's holes are no tensors.
            result = self.triax("train", "run.toml", f"run.dir={name}",
                                *one_rank, *sizes,
                                MALLOC_MMAP_THRESHOLD_="65536")
            self.assertEqual(result.returncode, 0, result.stderr)
            last = self.metrics(name)[-1]
            resident.append(last["memory_peak_bytes"])
            total.append(last["memory_at_peak"]["total"][0])
        self.assertGreater(total[1], 110 << 20)
        self.assertLess(abs(resident[1] - resident[0] - total[1] + total[0]),
                        0.05 * total[1], f"{resident}, {total}")

    def test_the_memory_limit_ends_the_run_with_a_sentence(self):
        large = ["model.hidden_size=256", "model.intermediate_size=688",
                 "training.validate_every=0", "training.microbatch_size=4",
                 "model.max_position_embeddings=256",
                 "data.sequence_length=256"]
        result = self.triax("train", "run.toml", "run.dir=free", *large)
        self.assertEqual(result.returncode, 0, result.stderr)
        memory = self.metrics("free")[-1]["memory_at_peak"]
        most = memory["total"].index(max(memory["total"]))
        limit = memory["total"][most] - memory["activations"][most] // 2
        result = self.triax("train", "run.toml", "run.dir=out", *large,
                            f"memory.limit={limit}")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("out of memory"), 1)
        self.assertRegex(
            result.stderr,
            r"error: rank \d \(dp 0, pp \d, tp \d; pid \d+\): step 1, .*failed: "
            r"out of memory: \S+ .iB more for "
            r"(activations|temporary) would make \S+ MiB of memory.limit = \S+ "
            r"MiB; in use are parameters \S+ MiB, .*; predicted were \S+ MiB"
            r".*; it would fit with training.microbatch_size = \d \(\S+ MiB: "
            r"activations \S+ MiB instead of \S+ MiB, .*\), or with memory\.")
        for log in self.path("out/logs").iterdir():
            self.assertIn("out of memory", log.read_text())

    def test_a_model_above_the_limit_is_not_built(self):
        result = self.triax("train", "run.toml", "run.dir=out",
                            "memory.limit=20KiB")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("warning[memory-exceeds-limit]", result.stderr)
        self.assertIn("more for parameters would make", result.stderr)
        self.assertIn("no schedule, zero, recompute, offload, microbatch, tp or pp",
                      result.stderr)

    def test_the_resolved_config_runs_again_exactly(self):
        first = self.triax("train", "run.toml", "run.dir=a")
        self.assertEqual(first.returncode, 0, first.stderr)
        again = self.triax("train", "a/run.toml", "run.dir=b")
        self.assertEqual(again.returncode, 0, again.stderr)
        losses = [m["loss"] for m in self.metrics("a")]
        self.assertEqual(losses, [m["loss"] for m in self.metrics("b")])

    def test_every_zero_stage_makes_the_same_run(self):
        runs = []
        for zero in (0, 1, 2, 3):
            result = self.triax(
                "train", "run.toml", "parallel.tp=1", "parallel.dp=2",
                "training.microbatch_size=4", f"parallel.zero={zero}",
                "parallel.bucket_bytes=20000", f"run.dir=zero{zero}")
            self.assertEqual(result.returncode, 0, result.stderr)
            runs.append([[m[key] for key in ("loss", "grad_norm", "lr")]
                         + [m.get("validation_loss")]
                         for m in self.metrics(f"zero{zero}")])
            if zero > 0:
                self.assertIn(f"dp2_pp2_zero{zero}", result.stderr)
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[0], runs[2])
        self.assertEqual(runs[0], runs[3])

    ON_FILE = ("memory.offload=nvme",
               'memory.offload_states=["activations"]')

    def test_activations_on_file_make_the_same_run(self):
        self.assertEqual(
            self.triax("train", "run.toml", "run.dir=kept").returncode, 0)
        result = self.triax("train", "run.toml", "run.dir=moved",
                            *self.ON_FILE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"memory of rank .* on disk\n")
        kept, moved = self.metrics("kept"), self.metrics("moved")
        for key in ("loss", "grad_norm"):
            self.assertEqual([m[key] for m in moved], [m[key] for m in kept])
        self.assertGreater(moved[0]["on_disk_peak_bytes"], 100 << 10)
        self.assertEqual(kept[0]["on_disk_peak_bytes"], 0)
        self.assertEqual(set(os.listdir(self.path("moved"))),
                         set(os.listdir(self.path("kept"))))

    def test_a_killed_run_leaves_nothing_of_its_activations(self):
        process = self.start("train", "run.toml", "run.dir=out",
                             "training.steps=100000",
                             "training.microbatch_size=4",
                             "memory.offload_dir=.", *self.ON_FILE)
        self.wait_for_step(process, 2)
        ranks = self.ranks_of(process)
        files = [os.readlink(entry) for rank in ranks
                 for entry in pathlib.Path(f"/proc/{rank}/fd").iterdir()]
        nameless = [f for f in files if f.startswith(self.folder) and
                    f.endswith("(deleted)")]
        self.assertEqual(len(nameless), 4)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        process.communicate()
        self.assertEqual(
            set(os.listdir(self.folder)),
            {"out", "text.txt", "run.toml"})
        self.assertEqual(set(os.listdir(self.path("out"))) -
                         {"run.toml", "metrics.jsonl", "logs"}, set())

    def test_refuses_a_run_folder_that_exists(self):
        self.path("out").mkdir()
        result = self.triax("train", "run.toml", "run.dir=out")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("out", result.stderr)

    def test_stops_before_it_starts_on_a_wrong_config(self):
        result = self.triax("train", "run.toml", "parallel.tp=3",
                            "training.microbatch_size=3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("parallel.tp", result.stderr)
        self.assertIn("microbatch_size", result.stderr)
        self.assertFalse(self.path("runs").exists())

    def test_names_a_rank_that_was_killed(self):
        process = self.start("train", "run.toml", "run.dir=out",
                             "training.steps=100000")
        self.wait_for_step(process, 3)
        victim = self.ranks_of(process)[2]
        os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("rank 2 (dp 0, pp 1, tp 0", errors)
        self.assertIn("SIGKILL", errors)
        self.assertRegex(errors, r"step \d+")

    def test_names_a_rank_that_was_killed_while_others_gather(self):
        # Slow links: nearly all of the time is spent in gathering.
        process = self.start("train", "run.toml", "run.dir=out",
                             "parallel.tp=1", "parallel.pp=1", "parallel.dp=4",
                             "training.microbatch_size=2", "parallel.zero=3",
                             "comm.emulate.dp.latency=20ms",
                             "training.steps=100000")
        self.wait_for_step(process, 2)
        os.kill(self.ranks_of(process)[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("rank 1 (dp 1", errors)
        self.assertIn("SIGKILL", errors)
        self.assertNotIn("are split over", errors)

    def test_an_interrupt_stops_cleanly(self):
        for kind in (signal.SIGINT, signal.SIGTERM):
            process = self.start("train", "run.toml", f"run.dir=out{kind:d}",
                                 "training.steps=100000")
            self.wait_for_step(process, 3)
            process.send_signal(kind)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            self.assertIn("no state was saved", errors)

    def test_an_interrupted_verify_gives_no_verdict(self):
        process = self.start("verify", "run.toml", "run.dir=out", "--steps",
                             "100000")
        while not self.ranks_of(process):
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(out, "")
        self.assertIn("nothing is said of the layout", errors)

    def test_a_limit_just_above_the_peak_is_enough(self):
        arguments = ("train", "run.toml", "training.validate_every=0",
                     "data.validation=0")
        first = self.triax(*arguments, "run.dir=a")
        self.assertEqual(first.returncode, 0, first.stderr)
        peak = max(self.metrics("a")[-1]["memory_at_peak"]["total"])
        again = self.triax(*arguments, "run.dir=b",
                           f"memory.limit={int(1.1 * peak)}")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_closed_streams_are_not_taken_by_the_run(self):
        for closed in ("1>&- 2>&-", "0<&- 1>&- 2>&-", "0<&- 2>&-"):
            number = len(list(self.path(".").glob("closed*")))
            line = (f"{TRIAX} train run.toml run.dir=closed{number} "
                    f"{closed}")
            result = subprocess.run(["sh", "-c", line], cwd=self.folder,
                                    timeout=120)
            self.assertEqual(result.returncode, 0, closed)
            self.assertEqual(len(self.metrics(f"closed{number}")), 6)

    def test_output_that_is_lost_is_an_error(self):
        for verb in ("check", "train --print-config", "train --dry-run",
                     "verify"):
            for lost in (">/dev/full", ">&-"):
                line = f"{TRIAX} {verb} run.toml {lost}"
                result = subprocess.run(["sh", "-c", line], cwd=self.folder,
                                        capture_output=True, timeout=120)
                self.assertEqual(result.returncode, 1, line)
                self.assertIn(b"stdout", result.stderr, line)

    def test_a_signal_to_one_rank_is_an_interruption(self):
        process = self.start("train", "run.toml", "run.dir=out",
                             "training.steps=100000")
        self.wait_for_step(process, 3)
        os.kill(self.ranks_of(process)[1], signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("no state was saved", errors)

    def test_folders_with_odd_names(self):
        for name in ("slash/", "-x"):
            result = self.triax("train", "run.toml", f'run.dir="{name}"')
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(self.metrics(f"./{name}")), 6)

    def test_nothing_outlives_a_killed_front(self):
        process = self.start("train", "run.toml", "run.dir=out",
                             "training.steps=100000")
        self.wait_for_step(process, 2)
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def open_files_in(self, pid):
        """Links of the process' open files that lie in the test's folder."""
        links = []
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                links.append(os.readlink(entry))
            except OSError:
                pass
        return [link for link in links if link.startswith(self.folder)]

    def test_offloads_the_optimizer_and_leaves_no_file(self):
        self.path("spill").mkdir()
        offload = ["memory.offload=nvme", "memory.offload_dir=spill",
                   "parallel.tp=1", "training.steps=100000",
                   "training.validate_every=0"]
        process = self.start("train", "run.toml", "run.dir=out", *offload)
        seen = self.wait_for_step(process, 3)
        self.assertRegex(seen, r"rank 0 offloads \S+ KiB to spill \(")
        pid = self.ranks_of(process)[0]
        files = [link for link in self.open_files_in(pid) if "/spill/" in link]
        self.assertEqual(len(files), 1, files)
        self.assertIn("(deleted)", files[0])
        self.assertEqual(os.listdir(self.path("spill")), [])
        size = self.metrics("out")[-1]["offload"]["file"][0]
        self.assertEqual(os.stat(f"/proc/{pid}/fd").st_mode & 0o077, 0)
        # The steps of which all was moved between two looks, at least.
        before = self.io_of(pid)
        first = self.metrics("out")[-1]["step"] + 1
        self.wait_for_step(process, first + 20)
        last = self.metrics("out")[-1]["step"]
        after = self.io_of(pid)
        for key in ("read_bytes", "write_bytes"):
            self.assertGreaterEqual(after[key] - before[key],
                                    0.95 * size * (last - first), key)
        # Whatever kills them all, the disk has its room again.
        for rank in self.ranks_of(process):
            os.kill(rank, signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertEqual(os.listdir(self.path("spill")), [])

    def io_of(self, pid):
        text = pathlib.Path(f"/proc/{pid}/io").read_text()
        return {key: int(value) for key, value in
                (line.split(": ") for line in text.splitlines())}

    def test_a_full_disk_ends_the_run_before_its_first_step(self):
        self.path("spill").mkdir()
        result = self.triax("train", "run.toml", "run.dir=out",
                            "memory.offload=nvme", "memory.offload_dir=spill",
                            "model.hidden_size=262144",
                            "model.intermediate_size=262144",
                            "model.num_hidden_layers=64")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr,
                         r"error\[offload-disk-full\]: memory.offload_dir: "
                         r"\S+ TiB go on file for 4 ranks, \S+ TiB the largest "
                         r"\(optimizer \S+ TiB\), and \S+ \SiB are free in "
                         r'"spill"')
        self.assertFalse(self.path("out").exists())

    def test_a_limit_of_file_sizes_is_an_error_and_no_signal(self):
        for blocks, name in (0, r"run\.toml"), (8, "shared memory"):
            result = subprocess.run(
                ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "_", TRIAX,
                 "train", "run.toml", f"run.dir=out{blocks}",
                 "memory.offload=nvme"],
                cwd=self.folder, capture_output=True, text=True, timeout=300)
            self.assertIn(result.returncode, (1, 2), result.stderr)
            self.assertRegex(result.stderr, f"{name}.*File too large")

    def test_verify_proves_the_split(self):
        result = self.triax("verify", "run.toml", "training.precision=fp64")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "equal")
        result = self.triax("verify", "run.toml", "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["verdict"], "equal")
        for key in ("loss", "gradients", "grad_norm", "weights"):
            self.assertLessEqual(report[key]["distance"],
                                 report[key]["bound"])

    def test_verify_proves_zero_and_finds_what_it_forgets(self):
        layout = ["parallel.tp=1", "parallel.dp=2", "parallel.zero=2",
                  "parallel.bucket_bytes=20000", "training.precision=fp64"]
        result = self.triax("verify", "run.toml", *layout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(result.stdout.startswith("dp2_pp2_zero2 against "))
        for name in ("stale-parameter-shard", "shard-not-updated"):
            result = self.triax("verify", "run.toml", *layout, "--break", name)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stdout.splitlines()[-1], "different")
        layout[2] = "parallel.zero=3"
        result = self.triax("verify", "run.toml", *layout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = self.triax("verify", "run.toml", *layout, "--break",
                            "stale-unit")
        self.assertEqual(result.returncode, 1, result.stderr)

    def test_verify_finds_what_is_broken(self):
        result = self.triax("verify", "run.toml", "training.precision=fp64",
                            "--break", "swap-heads")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "different")
        self.assertRegex(result.stdout,
                         r"first difference: initial weight of model\.\S+ at \[")
        self.assertRegex(result.stdout,
                         r"DIFFERENT model\.layers\.0\.self_attn")

    def test_a_wrong_break_leaves_no_folder(self):
        result = self.triax("verify", "run.toml", "--break", "swap-heads2")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("swap-heads", result.stderr)
        result = self.triax("verify", "run.toml", "--break", "untie")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("tie_word_embeddings", result.stderr)
        self.assertFalse(self.path("runs").exists())

    def test_triax_run_says_what_it_is(self):
        program = pathlib.Path(TRIAX).parent.parent / "libexec/triax-run"

        def call(*arguments):
            return subprocess.run([program, *arguments], cwd=self.folder,
                                  capture_output=True, text=True, timeout=60)

        shown = call("--help")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("forks the ranks of a run", shown.stdout)
        alone = call()
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        self.assertRegex(alone.stderr,
                         r"^error: triax-run is started by triax[^\n]*\n$")
        self.assertEqual(call("train").returncode, 2)

    def test_one_rank_is_not_several(self):
        one = self.triax("train", "run.toml", "--dry-run", "training.steps=1",
                         "optimizer.warmup_steps=0",
                         "parallel.tp=1", "parallel.pp=1", "parallel.dp=1",
                         "training.global_batch_size=1",
                         "training.microbatch_size=1")
        self.assertIn("= 1 rank; ", one.stderr + one.stdout)
        self.assertIn("; 1 step of 1 sequence (16 tokens) in 1 microbatch of 1",
                      one.stderr + one.stdout)

    def test_the_dry_run_starts_nothing(self):
        result = self.triax("train", "run.toml", "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("stage 1: layers 2 to 3, head", result.stdout)
        for row in (r"embedding\.weight +\[128, 32\] +stage 0",
                    r"blocks\.\*\.attention\.qkv\.weight +\[48, 32\] +each ",
                    r"head\.weight +\[128, 32\] +stage 1",
                    r"activation +\[2, 16, 32\] ",
                    r"logits +\[2, 16, 128\] +last stage",
                    r"total +\d\S+ [KM]iB +\d\S+ [KM]iB"):
            self.assertRegex(result.stdout, row)
        self.assertFalse(self.path("runs").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
