#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the committed lists still are what the packages say.

PyYAML for the scalars, nanotron 0.4 for its keys and its verdicts. Exit code
77 where one is not installed: pip install pyyaml dacite, and
pip install --no-deps nanotron==0.4, beside torch.
"""
import glob
import importlib.util
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "../cases/nanotron")
SKIPPED = 77


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, os.path.join(HERE, script), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        text=True).stdout


def first_two(text):
    """File and verdict: the exception's words are for people."""
    return ["\t".join(line.split("\t")[:2]) for line in text.splitlines()]


def differences(path, found, part=str.splitlines):
    with open(path, encoding="utf-8") as stream:
        old, new = part(stream.read()), part(found)
    lines = [f"- {line}" for line in old if line not in new]
    lines += [f"+ {line}" for line in new if line not in old]
    if lines:
        print(f"{path} is not what the package says:", *lines, sep="\n")
    return len(lines)


def main():
    for package in ("yaml", "dacite", "nanotron"):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed")
            return SKIPPED
    files = sorted(glob.glob(os.path.join(CASES, "*.yaml")))
    count = differences(os.path.join(HERE, "parse_yaml_scalars.tsv"),
                        run("parse_yaml_scalars.py"))
    count += differences(os.path.join(HERE, "nanotron_keys.tsv"),
                         run("nanotron_verdicts.py", "--keys"))
    count += differences(os.path.join(CASES, "verdicts.tsv"),
                         run("nanotron_verdicts.py", *files), first_two)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
