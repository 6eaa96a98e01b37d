#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the committed lists still are what the installed package says.

The C++ tests compare triax with the lists; this compares the lists with
DeepSpeed itself and with the package hjson, so that neither can go stale.
Exit code 77 where the package is not installed (tools/setup.sh --tests).
"""
import os
import sys

from package_lists import HERE, SKIPPED, differences, run


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
    count += differences("deepspeed/parameters-0.19.8.txt",
                         run("deepspeed_parameters.py"))
    count += differences("deepspeed/verdicts.txt",
                         run("deepspeed_verdicts.py"))
    count += differences("hjson/expected.txt", hjson)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
