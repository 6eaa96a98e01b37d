# SPDX-License-Identifier: Apache-2.0
"""Compares triax's table of TorchTitan's keys with JobConfig's fields.

usage: python3 tests/foreign/torchtitan_keys.py > \
           tests/foreign/torchtitan_keys.tsv
Needs torchtitan==0.2.2 (see torchtitan_verdicts.py). One line each: the key,
its type, its default, its choices; then "shipped", name, flavor, layers, heads,
KV heads, dim, vocabulary, the norm's epsilon, RoPE's base, and its scaling: the
kind and its factor. tests/foreign/torchtitan_test.cpp reads it.
"""
import dataclasses
import importlib
import types
import typing

import torchtitan_stand_ins


def kind(hint):
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not type(None)]
        if set(rest) == {float, int}:
            return "number", ""
        return kind(rest[0]) if len(rest) == 1 else ("any", "")
    if origin is typing.Literal:
        return "text", " | ".join(map(str, parts))
    if origin is list:
        return "list", ""
    names = {bool: "flag", int: "whole", float: "number", str: "text"}
    return names[hint], ""


def written(value):
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def walk(cls, prefix=""):
    for field in dataclasses.fields(cls):
        key = prefix + field.name
        if dataclasses.is_dataclass(field.type):
            print(key, "table", "", "", sep="\t")
            walk(field.type, key + ".")
            continue
        default = field.default
        if default is dataclasses.MISSING:
            default = field.default_factory()
        print(key, kind(field.type)[0], written(default),
              kind(field.type)[1], sep="\t")


def scaling(args):
    """"llama3 8", "llama3 16 unusual" where its other three numbers are not
    those of Llama 3.1, "yarn 40", "none"."""
    if hasattr(args, "rope_factor"):
        return f"yarn {args.rope_factor:g}"
    table = getattr(args, "rope_scaling_args", None)
    if table is None:
        return "none"
    rest = (table.low_freq_factor, table.high_freq_factor,
            table.original_max_position_embeddings)
    return (f"llama3 {table.scaling_factor:g}"
            + ("" if rest == (1, 4, 8192) else " unusual"))


def models():
    for name in ("llama3", "llama4", "deepseek_v3", "qwen3", "gpt_oss"):
        module = importlib.import_module(f"torchtitan.models.{name}")
        for flavor, args in module.get_train_spec().model_args.items():
            kv_heads = getattr(args, "n_kv_heads", None)
            if kv_heads is None:
                kv_heads = 0 if name == "deepseek_v3" else args.n_heads
            print("shipped", name, flavor, args.n_layers, args.n_heads,
                  kv_heads, args.dim, args.vocab_size,
                  f"{args.norm_eps:g}", f"{args.rope_theta:g}", scaling(args),
                  sep="\t")


if __name__ == "__main__":
    from torchtitan.config.job_config import JobConfig

    walk(JobConfig)
    models()
