#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the committed lists still are what the installed package says.

The C++ tests compare triax with the lists; this compares the lists with
DeepSpeed itself and with the package hjson, so that neither can go stale.
Exit code 77 where the package is not installed (tools/setup.sh --tests).
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


def run(script, *arguments, stdin=None):
    return subprocess.run(
        [sys.executable, os.path.join(HERE, script), *arguments], stdin=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        text=True).stdout


def committed(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as stream:
        return stream.read()


def differences(name, found):
    old, new = committed(name).splitlines(), found.splitlines()
    lines = [f"- {line}" for line in old if line not in new]
    lines += [f"+ {line}" for line in new if line not in old]
    if lines:
        print(f"{name} is not what the package says:", *lines, sep="\n")
    return len(lines)


def main():
    try:
        import deepspeed  # noqa: F401
    except ImportError:
        print("deepspeed is not installed; run tools/setup.sh --tests")
        return SKIPPED
    with open(os.path.join(HERE, "hjson/cases.txt"),
              encoding="utf-8", newline="") as cases:
        hjson = run("hjson_oracle.py", stdin=cases)
    count = differences("deepspeed/keys-0.19.8.txt", run("deepspeed_keys.py"))
    count += differences("deepspeed/verdicts.txt",
                         run("deepspeed_verdicts.py"))
    count += differences("hjson/expected.txt", hjson)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
