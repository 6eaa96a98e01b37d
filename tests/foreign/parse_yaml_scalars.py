# SPDX-License-Identifier: Apache-2.0
"""Writes what PyYAML's safe loader makes of plain scalars.

usage: python3 tests/foreign/parse_yaml_scalars.py > \
           tests/foreign/parse_yaml_scalars.tsv
Needs pyyaml. One line each: the scalar, its type, its value.
"""
import datetime
import itertools
import math
import sys

import yaml

WRITTEN = """
yes Yes YES yEs y Y no No NO n N on On ON off Off OFF true True TRUE tRUE
false False FALSE null Null NULL nULL ~ none None nan NaN inf .nan .NaN .NAN
.Nan .inf .Inf .INF -.inf +.INF -.nan 0 00 007 010 08 -010 +010 0o17 0b101
0b2 -0b11 0x1f 0X1F -0xFF 0xg 1_000 1__0 _1 1_ 0_7 1:30 1:60 01:30 190:20:30
190:20:30.15 1:5 -1:30 1:300 1e4 1e-4 1E-4 1.e4 1.e+4 1.0e4 1.0e+4 1.0e-4
1.5E-05 3.0e-4 6e-4 1_0.5 1. .5 .5e+1 .5e1 5e+3 -.5 +.5 ._5 .5_0 . .. ... 1.2.3
+1 -1 +-1 1- 12e03 -2E+05 12.5 -0.0 0. 0.1 00.5 08.5 2026-03-01 2026-3-1
2026-03-01T10:20:30 2026-03-01T10:20:30Z 20260301 9223372036854775807
-9223372036854775808 = bfloat16 1f1b afab REDUCE_SCATTER 10k 1,000 1/2 a:b
tiny_%date x=1 0.95 1.0e-08 1.0e-8 1e-8 1.0E8 4096 4_096 4096.0 -7 0xdead_beef
""".split()


def line(text):
    value = yaml.safe_load("k: " + text)["k"]
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "flag", str(value).lower()
    if isinstance(value, int):
        return "whole", str(value)
    if isinstance(value, float):
        return "real", "nan" if math.isnan(value) else repr(value)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return "date", ""
    assert value == text, (value, text)
    return "text", text


def walk():
    """Every scalar of up to four bytes over a small alphabet."""
    for size in range(1, 5):
        for letters in itertools.product("01_.:e-+x", repeat=size):
            yield "".join(letters)


def main():
    for text in itertools.chain(WRITTEN, walk()):
        if text in ("-",) or text.endswith(":") or text == "---":
            continue
        try:
            kind, value = line(text)
        except (ValueError, yaml.YAMLError):
            continue  # PyYAML stops on it: "0x_", "="
        sys.stdout.write(f"{text}\t{kind}\t{value}\n")


main()
