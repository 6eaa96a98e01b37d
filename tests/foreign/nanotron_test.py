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
import sys

from package_lists import HERE, SKIPPED, columns, differences, run

CASES = os.path.join(HERE, "../cases/nanotron")


def main():
    for package in ("yaml", "dacite", "nanotron"):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed")
            return SKIPPED
    files = sorted(glob.glob(os.path.join(CASES, "*.yaml")))
    count = differences("parse_yaml_scalars.tsv", run("parse_yaml_scalars.py"))
    count += differences("nanotron_keys.tsv", run("nanotron_verdicts.py", "--keys"))
    count += differences(os.path.join(CASES, "verdicts.tsv"),
                         run("nanotron_verdicts.py", *files), columns(2))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
