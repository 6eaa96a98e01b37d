#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include "triax/..." against tools/layers.txt.

Exit 0 when each include goes to the same folder or to a lower level, and no
plain folder reaches a torch one; otherwise prints each offender and exits 1.
Also refuses <torch/torch.h> anywhere, LibTorch in plain folders, and the
banned file names of the style.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BANNED = {"utils", "helpers", "common", "misc", "manager", "types"}
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')
TORCH = re.compile(r"^(ATen|c10|torch|caffe2)/")


def load_table():
    table = {}
    for line in (ROOT / "tools/layers.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            table[words[0]] = (int(words[1]), words[2])
    return table


def main():
    table = load_table()
    problems = []
    for path in sorted((ROOT / "triax").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        name = path.relative_to(ROOT)
        folder = name.parts[1]
        if path.stem in BANNED:
            problems.append(f"{name}: banned file name")
        if folder not in table:
            problems.append(f"{name}: folder not in tools/layers.txt")
            continue
        level, kind = table[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            where = f"{name}:{number}: "
            if target == "torch/torch.h":
                problems.append(where + "torch/torch.h is never included")
            if TORCH.match(target) and kind == "plain":
                problems.append(where + f"LibTorch in the plain folder {folder}")
            if not target.startswith("triax/"):
                continue
            other = target.split("/")[1]
            if other == folder:
                continue
            other_level, other_kind = table.get(other, (99, "torch"))
            if other_level >= level:
                problems.append(where + f"{folder} may not include {other}")
            if kind == "plain" and other_kind == "torch":
                problems.append(where + f"plain {folder} includes torch {other}")
    print("\n".join(problems) if problems else "layers: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
