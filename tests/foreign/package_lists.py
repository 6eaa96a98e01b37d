# SPDX-License-Identifier: Apache-2.0
"""What the tests of the committed lists have in common: the C++ tests compare
triax with the lists, and these compare the lists with the packages."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77  # the exit code where a package is not installed


def run(script, *arguments, stdin=None):
    """What a script of this folder prints."""
    return subprocess.run(
        [sys.executable, os.path.join(HERE, script), *arguments], stdin=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        text=True).stdout


def columns(count):
    """The lines of a text, cut to their first columns."""
    def cut(text):
        return ["\t".join(line.split("\t")[:count])
                for line in text.splitlines()]
    return cut


def differences(path, found, part=str.splitlines):
    """How many lines of the list and of what was found differ; prints them.
    `path` is relative to this folder."""
    with open(os.path.join(HERE, path), encoding="utf-8") as stream:
        old, new = part(stream.read()), part(found)
    lines = [f"- {line}" for line in old if line not in new]
    lines += [f"+ {line}" for line in new if line not in old]
    if lines:
        print(f"{path} is not what the package says:", *lines, sep="\n")
    return len(lines)
