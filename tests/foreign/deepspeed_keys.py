#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every key that the installed DeepSpeed's config classes read.

Two ways that miss nothing between them: the fields and aliases of the
pydantic classes, and, for the sections that are read as plain dicts, a dict
that notes what it is asked for while DeepSpeedConfig reads it.

usage: deepspeed_keys.py          prints one key a line, KEY TYPE DEFAULT
"""
import logging
import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.CRITICAL)

from pydantic import BaseModel  # noqa: E402

import deepspeed  # noqa: E402
from deepspeed.comm.config import CommsLoggerConfig  # noqa: E402
from deepspeed.compile.config import CompileConfig  # noqa: E402
from deepspeed.inference.config import WeightQuantConfig  # noqa: E402
from deepspeed.monitor.config import DeepSpeedMonitorConfig  # noqa: E402
from deepspeed.runtime import config as runtime  # noqa: E402
from deepspeed.runtime import precision_config as precision  # noqa: E402
from deepspeed.runtime.tensor_parallel.config import (  # noqa: E402
    TPTrainingConfig)
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig  # noqa: E402
from deepspeed.utils.config import (  # noqa: E402
    DeepSpeedThroughputTimerConfig)

MODELS = {
    "zero_optimization": DeepSpeedZeroConfig,
    "fp16": precision.DeepSpeedFP16Config,
    "bf16": precision.DeepSpeedBF16Config,
    "bfloat16": precision.DeepSpeedBF16Config,
    "comms_logger": CommsLoggerConfig,
    "hybrid_engine": runtime.HybridEngineConfig,
    "weight_quantization": WeightQuantConfig,
    "compile": CompileConfig,
    "tensor_parallel": TPTrainingConfig,
    "timers.throughput": DeepSpeedThroughputTimerConfig,
    "": DeepSpeedMonitorConfig,
}


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from models_in(part)


def walk_model(model, prefix, found):
    for name, field in model.model_fields.items():
        for key in {name, field.alias or name}:
            path = f"{prefix}.{key}" if prefix else key
            default = "" if field.is_required() else repr(field.default)
            kind = getattr(field.annotation, "__name__", str(field.annotation))
            found[path] = (kind.replace(" ", ""), default)
            for inner in models_in(field.annotation):
                walk_model(inner, path, found)


class Noting(dict):
    """A dict that notes the keys it is asked for, and has sections."""

    def __init__(self, path, found, content):
        super().__init__(content)
        self.path, self.found = path, found

    def note(self, key):
        path = f"{self.path}.{key}" if self.path else key
        self.found.setdefault(path, ("", ""))

    def __contains__(self, key):
        self.note(key)
        return super().__contains__(key)

    def get(self, key, default=None):
        self.note(key)
        return super().get(key, default)

    def keys(self):
        noting = self

        class Keys:
            def __contains__(self, key):
                return key in noting

            def __iter__(self):
                return iter(dict.keys(noting))
        return Keys()

    def __getitem__(self, key):
        self.note(key)
        return super().__getitem__(key)

    def __copy__(self):
        return Noting(self.path, self.found, dict(self))


def walk_dicts(found):
    def section(path, **content):
        return Noting(path, found, content)

    sampling = "data_efficiency.data_sampling"
    routing = "data_efficiency.data_routing"
    curriculum = section(f"{sampling}.curriculum_learning", enabled=True,
                         curriculum_metrics={})
    batching = section(f"{sampling}.dynamic_batching", enabled=True,
                       max_tokens=1, max_batch_size=1)
    runtime.DeepSpeedConfig(section(
        "",
        train_batch_size=1,
        torch_autocast=section("torch_autocast", enabled=True,
                               dtype="bfloat16",
                               lower_precision_safe_modules=[]),
        optimizer=section("optimizer", type="adam", params={}),
        scheduler=section("scheduler", type="WarmupLR", params={}),
        activation_checkpointing=section("activation_checkpointing"),
        flops_profiler=section("flops_profiler"),
        autotuning=section("autotuning",
                           model_info=section("autotuning.model_info")),
        data_efficiency=section(
            "data_efficiency", enabled=True,
            data_sampling=section(sampling, curriculum_learning=curriculum,
                                  dynamic_batching=batching),
            data_routing=section(routing, random_ltd=section(
                f"{routing}.random_ltd", enabled=True))),
        checkpoint=section("checkpoint",
                           parallel_write=section("checkpoint.parallel_write"),
                           writer=section("checkpoint.writer", type="fast",
                                          data_parallel="replica")),
        data_types=section("data_types"),
        aio=section("aio"),
        timers=section("timers", throughput={}),
        expert_parallel=section("expert_parallel", enabled=False),
    ))
    # get_pipeline_config() keeps its defaults inside itself.
    for key in runtime.get_pipeline_config({}):
        found.setdefault(f"pipeline.{key}", ("", ""))


def all_keys():
    found = {}
    walk_dicts(found)
    for prefix, model in MODELS.items():
        walk_model(model, prefix, found)
    for key in runtime._REMOVED_TOP_LEVEL_CONFIG_KEYS:
        found[key] = ("removed", "")
    for key in runtime._REMOVED_ZERO_CONFIG_KEYS:
        found[f"zero_optimization.{key}"] = ("removed", "")
    return found


def main():
    sys.stdout.write(f"# deepspeed {deepspeed.__version__}\n")
    for path, (kind, default) in sorted(all_keys().items()):
        sys.stdout.write(f"{path} {kind} {default}".rstrip() + "\n")


if __name__ == "__main__":
    main()
