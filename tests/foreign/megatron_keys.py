#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every argument of Megatron-LM's own parser, one a line.

    pip install megatron-core==0.19.2 torch packaging numpy   (Python 3.12)
    python3 tests/foreign/megatron_keys.py > tests/foreign/megatron_keys.tsv
    python3 tests/foreign/megatron_keys.py --cpp \
        > triax/foreign/megatron_keys.cpp

The package holds megatron/training/arguments.py and the dataclasses that most
arguments are made from; the parser is built and asked, so nothing is guessed
from the source's text. No GPU is needed.

Columns: names (the first is the key), what it stores (value, true, false,
flag: --x and --no-x), type, default, choices, how many values.
"""
import argparse
import enum
import sys
import warnings

SPECIAL_TYPES = {"moe_freq_type", "la_freq_type", "no_rope_freq_type",
                 "tuple_type", "_parse_cuda_graph_modules_arg"}
STORES = {"_StoreTrueAction": "true", "_StoreFalseAction": "false",
          "BooleanOptionalAction": "flag", "_StoreAction": "value"}


def actions():
    warnings.filterwarnings("ignore")
    from megatron.training.arguments import add_megatron_arguments
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    return [a for a in parser._actions if a.dest != "help"]


def text(value):
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return " ".join(text(item) for item in value)
    return str(value)


def type_of(action):
    if action.type in (int, float):
        return action.type.__name__
    return "str"


def row(action):
    stores = STORES[type(action).__name__]
    names = [name.removeprefix("--") for name in action.option_strings]
    choices = " | ".join(text(c) for c in action.choices or [])
    if stores != "value":
        return [" ".join(names), stores, "", "", "", ""]
    return [" ".join(names), stores, type_of(action), text(action.default),
            choices, text(action.nargs) or "1"]


def cpp_row(fields):
    names, stores, kind, default, choices, count = fields
    key, *aliases = names.split()
    quoted = lambda s: '"' + s.replace('"', '\\"') + '"'
    if stores == "flag":
        return "\n".join(f"    toggle({quoted(name)})," for name in names.split())
    if stores != "value":
        maker, parts = "toggle", [quoted(key)]
        if aliases:
            parts.append(quoted(" | ".join(aliases)))
    else:
        maker = {"int": "whole", "float": "number", "str": "text"}[kind]
        if count != "1":
            maker = maker + "s"
        parts = [quoted(key)]
        tail = [default, choices, " | ".join(aliases)]
        while tail and not tail[-1]:
            tail.pop()
        parts += [quoted(part) for part in tail]
        if count != "1":
            parts.insert(1, quoted(count))
    return f"    {maker}({', '.join(parts)}),"


CPP_HEAD = """// SPDX-License-Identifier: Apache-2.0
// Made by tests/foreign/megatron_keys.py --cpp; what is said of single keys
// stands in megatron_key_notes.cpp.
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

using namespace megatron_row;

// clang-format off
constexpr MegatronRow kRows[] = {"""

CPP_TAIL = """};
// clang-format on

}  // namespace

std::span<const MegatronRow> megatron_parser_rows() { return kRows; }

}  // namespace triax"""


def main():
    rows = [row(a) for a in actions()]
    if "--cpp" in sys.argv[1:]:
        print(CPP_HEAD)
        for fields in rows:
            print(cpp_row(fields))
        print(CPP_TAIL)
        return
    for fields in rows:
        print("\t".join(fields))


main()
