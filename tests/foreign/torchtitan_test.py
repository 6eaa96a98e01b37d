#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the committed lists still are what TorchTitan 0.2.2 says.

usage: tests/foreign/torchtitan_test.py [--verdicts]
--verdicts starts its trainer on each case too, some minutes in all. Exit code
77 where torchtitan 0.2.2 is not installed; torchtitan_verdicts.py lists what
it needs.
"""
import glob
import importlib.metadata
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "../cases/torchtitan")
SKIPPED = 77


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, os.path.join(HERE, script), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        text=True).stdout


def verdicts(text):
    """File and verdict: the exception's words are for people."""
    return ["\t".join(line.split("\t")[:3]) for line in text.splitlines()]


def differences(path, found, part=str.splitlines):
    with open(path, encoding="utf-8") as stream:
        old, new = part(stream.read()), part(found)
    lines = [f"- {line}" for line in old if line not in new]
    lines += [f"+ {line}" for line in new if line not in old]
    if lines:
        print(f"{path} is not what the package says:", *lines, sep="\n")
    return len(lines)


def main():
    try:
        if importlib.metadata.version("torchtitan") != "0.2.2":
            raise importlib.metadata.PackageNotFoundError
    except importlib.metadata.PackageNotFoundError:
        print("torchtitan 0.2.2 is not installed")
        return SKIPPED
    count = differences(os.path.join(HERE, "torchtitan_keys.tsv"),
                        run("torchtitan_keys.py"))
    if "--verdicts" in sys.argv[1:]:
        files = sorted(glob.glob(os.path.join(CASES, "*.toml")))
        count += differences(os.path.join(CASES, "verdicts.tsv"),
                             run("torchtitan_verdicts.py", *files), verdicts)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
