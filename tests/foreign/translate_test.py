#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `triax check --to` writes, read by the systems themselves: every sample
without errors, for DeepSpeed by DeepSpeedConfig (accepted, and every key
read), and for nanotron by the classes of the package 0.4, in its layout.

usage: translate_test.py TRIAX. Exit code 77 where one is not installed.
"""
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

from megatron_verdicts import cases as megatron_cases
from package_lists import HERE, SKIPPED

SAMPLES = {
    "deepspeed": "deepspeed/cases/*.json",
    "torchtitan": "../cases/torchtitan/*.toml",
    "nanotron": "../cases/nanotron/*.yaml",
    "triax": "../../examples/*.toml",
}


def triax(*arguments):
    return subprocess.run([sys.argv[1], "check", *arguments],
                          capture_output=True, text=True, check=False)


def world_of(path):
    match = re.search(r"\.w(\d+)\.", os.path.basename(path))
    return ["--world", match.group(1)] if match else []


def samples(folder):
    """(system, file); Megatron-LM's are written into the folder."""
    for kind, pattern in SAMPLES.items():
        for path in sorted(glob.glob(os.path.join(HERE, pattern))):
            yield kind, path
    for name, script in megatron_cases():
        path = os.path.join(folder, f"{name}.sh")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(script)
        yield "megatron", path


def translations(to):
    """(file, config) of every sample that has no errors of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in samples(folder):
            more = ["--kind", kind, *world_of(path)]
            found = json.loads(triax(path, *more, "--format", "json").stdout)
            bad = {p["rule"] for p in found if p["severity"] == "error"}
            if kind != to.split("@")[0] and bad <= {"data-path"}:
                result = triax(path, *more, "--to", to)
                assert result.returncode in (0, 1), (path, result.stderr)
                yield path, result.stdout


def deepspeed_refusals():
    from deepspeed_verdicts import verdict
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, text in translations("deepspeed"):
            content = json.loads(text)
            batch = content.get("train_batch_size", 1)
            micro = content.get("train_micro_batch_size_per_gpu", 1)
            steps = content.get("gradient_accumulation_steps", 1)
            # One number more is the ranks'.
            world = max(1, batch // (micro * steps))
            world *= content.get("sequence_parallel_size", 1)
            name = os.path.join(folder, f"{count}.w{world}.json")
            with open(name, "w", encoding="utf-8") as stream:
                stream.write(text)
            answer = verdict(name)
            if answer != "accepted":
                yield f"{path}: DeepSpeed says {answer}\n{text}"
            count += 1
    assert count > 80, count


def numbers_as_texts(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_as_texts(inner, f"{path}.{key}")
    elif isinstance(value, str) and re.fullmatch(r"[-+.0-9eE]+", value):
        yield path


def nanotron_refusals():
    import yaml
    from nanotron_verdicts import import_config, verdict
    config = import_config()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, text in translations("nanotron@0.4"):
            for key in numbers_as_texts(yaml.safe_load(text)):
                yield f"{path}: YAML takes {key} for a text"
            name = os.path.join(folder, "n.yaml")
            with open(name, "w", encoding="utf-8") as stream:
                stream.write(text)
            answer = verdict(config, name)
            if answer[0] != "loads":
                yield f"{path}: nanotron says {answer}\n{text}"
            count += 1
    assert count > 80, count


def main():
    for package in ("deepspeed", "nanotron", "yaml", "dacite"):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed; run tools/setup.sh --tests")
            return SKIPPED
    refusals = list(deepspeed_refusals()) + list(nanotron_refusals())
    print(*refusals, sep="\n")
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
