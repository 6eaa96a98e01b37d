#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package hjson makes of each document of cases.txt.

cases.txt holds documents between lines of "====". One line a document: its
value as JSON, or "refused". The values of NaN and lone surrogates are not
compared, so no document has them.

usage: hjson_oracle.py < cases.txt > expected.txt
"""
import json
import sys

import hjson


def unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("duplicate")
    return dict(pairs)


for document in sys.stdin.read().split("====\n"):
    try:
        value = hjson.loads(document, object_pairs_hook=unique)
        print(json.dumps(value, ensure_ascii=False))
    except Exception:
        print("refused")
