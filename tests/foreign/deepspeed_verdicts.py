#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the installed DeepSpeed's own DeepSpeedConfig says of each case.

A case is a file of tests/foreign/deepspeed/cases; "name.w8.json" is read as
by one of 8 ranks. One line a case: its name, "accepted" and the keys that
DeepSpeedConfig never asked for, or "refused" and what it threw.

usage: deepspeed_verdicts.py [FOLDER]
"""
import os
import re
import sys

import hjson

from deepspeed_keys import MODELS, Noting, runtime, walk_model
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys

HERE = os.path.dirname(os.path.abspath(__file__))

# Sections whose keys are read by walking over them, or later.
OPEN = ("optimizer.params", "scheduler.params", "datastates_ckpt",
        "autotuning.arg_mappings", "tensor_parallel.partition_config",
        "weight_quantization.quantized_initialization",
        "weight_quantization.post_init_quant",
        "data_efficiency.data_sampling.curriculum_learning.",
        "data_efficiency.data_sampling.dynamic_batching.",
        "data_efficiency.data_routing.random_ltd.")
# What the engine reads of the config, not its class.
ENGINE = ("data_parallel_size", "sequence_parallel_size", "allgather_size",
          "pipeline.use_reentrant")


def model_keys():
    found = {}
    for prefix, model in MODELS.items():
        walk_model(model, prefix, found)
    return found


def wrap(value, path, noted):
    if not isinstance(value, dict) or (path and path in MODELS):
        return value
    return Noting(path, noted, {
        key: wrap(inner, f"{path}.{key}" if path else key, noted)
        for key, inner in value.items()})


def keys_of(value, path=""):
    for key, inner in value.items():
        here = f"{path}.{key}" if path else key
        yield here, "." in key
        if isinstance(inner, dict):
            yield from keys_of(inner, here)


def ignored_keys(content, noted):
    known = set(noted) | set(model_keys()) | set(ENGINE)
    known |= {f"pipeline.{key}" for key in runtime.get_pipeline_config({})}
    # bfloat16 is read only where bf16 is not there.
    dead = set()
    if content.get("bf16") is not None and "bfloat16" in content:
        dead.add("bfloat16")
    found = []
    for path, has_dot in keys_of(content):
        parent = path.rpartition(".")[0]
        if parent in found or any(path.startswith(o) for o in OPEN):
            continue
        if path not in known or path in dead or has_dot:
            found.append(path)
    return [p for p in found if p.rpartition(".")[0] not in found]


def verdict(file):
    match = re.search(r"\.w(\d+)\.", os.path.basename(file))
    world = int(match.group(1)) if match else 1
    runtime.dist.get_rank = lambda *_: 0
    runtime.dist.get_world_size = lambda *_: world
    noted = {}
    try:
        with open(file, encoding="utf-8") as stream:
            content = hjson.load(
                stream, object_pairs_hook=dict_raise_error_on_duplicate_keys)
        if not isinstance(content, dict):
            raise TypeError("the root is no table")
        runtime.DeepSpeedConfig(wrap(content, "", noted))
    except Exception as error:
        return f"refused {type(error).__name__}"
    return " ".join(["accepted"] + sorted(ignored_keys(content, noted)))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/deepspeed/cases"
    for name in sorted(os.listdir(folder)):
        print(name, verdict(os.path.join(folder, name)))


if __name__ == "__main__":
    main()
