#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the committed lists still are what TorchTitan 0.2.2 says.

Its keys and models, and what its loader and its trainer's constructor say of
each case. Exit code 77 where torchtitan 0.2.2 is not installed;
torchtitan_verdicts.py lists what it needs.
"""
import glob
import importlib.metadata
import os
import sys

from package_lists import HERE, SKIPPED, columns, differences, run

CASES = os.path.join(HERE, "../cases/torchtitan")


def main():
    try:
        if importlib.metadata.version("torchtitan") != "0.2.2":
            raise importlib.metadata.PackageNotFoundError
    except importlib.metadata.PackageNotFoundError:
        print("torchtitan 0.2.2 is not installed")
        return SKIPPED
    count = differences("torchtitan_keys.tsv", run("torchtitan_keys.py"))
    files = sorted(glob.glob(os.path.join(CASES, "*.toml")))
    count += differences(os.path.join(CASES, "verdicts.tsv"),
                         run("torchtitan_verdicts.py", *files), columns(3))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
