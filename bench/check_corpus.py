#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `triax check` over a folder of configs and counts what it says, by rule.

    bench/check_corpus.py FOLDER [--triax build/bin/triax] [-- --world 8 …]

The folder holds one subfolder for each group of configs, or the files. Each
file is checked alone; what follows `--` goes to every `triax check`.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time

SLOW_SECONDS = 1.0


def check(triax, path, options):
    """The findings (None where there is no list of them), the exit code and
    the seconds."""
    begin = time.monotonic()
    done = subprocess.run(
        [triax, "check", str(path), "--format", "json", *options],
        capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    try:
        return json.loads(done.stdout), done.returncode, seconds
    except json.JSONDecodeError:
        return None, done.returncode, seconds


def groups(folder):
    """The files of each subfolder; those of the folder itself are ".". """
    found = collections.defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[path.relative_to(folder).parts[0]
                  if path.parent != folder else "."].append(path)
    return found


def measure(triax, files, options):
    rules = collections.Counter()
    files_with = collections.Counter()
    lines = []
    for path in files:
        findings, code, seconds = check(triax, path, options)
        if findings is None or code not in (0, 1):
            lines.append(f"  exit code {code}: {path}")
        if seconds > SLOW_SECONDS:
            lines.append(f"  {seconds:.1f} s: {path}")
        of_file = {(f["severity"], f["rule"]) for f in findings or []}
        rules.update(of_file)
        files_with.update({severity for severity, _ in of_file})
    return rules, files_with, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--triax", default="build/bin/triax")
    parser.add_argument("options", nargs="*", help="after --: for triax check")
    args = parser.parse_args()
    found = groups(args.folder)
    if not found:
        sys.exit(f"{args.folder} holds no file")
    for group, files in found.items():
        rules, files_with, lines = measure(args.triax, files, args.options)
        print(f"{group}: {len(files)} files, "
              f"{files_with['error']} with an error, "
              f"{files_with['warning']} with a warning")
        for (severity, rule), count in sorted(rules.items()):
            print(f"  {count:5} {severity:8} {rule}")
        print("\n".join(lines) + "\n" if lines else "")


if __name__ == "__main__":
    main()
