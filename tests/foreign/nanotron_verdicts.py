# SPDX-License-Identifier: Apache-2.0
"""What the package nanotron 0.4 says of each config in its layout.

usage: python3 tests/foreign/nanotron_verdicts.py FILE.yaml... > \
           tests/cases/nanotron/verdicts.tsv
       python3 tests/foreign/nanotron_verdicts.py --keys > \
           tests/foreign/nanotron_keys.tsv
Needs nanotron==0.4 (pip install --no-deps), dacite, pyyaml and torch. Its
config package is run as it is; what it imports of the engine, which wants a
GPU's libraries, is stood in for.

Files whose first line is "# layout = 0.4" are loaded: a line "loads" or
"refused" with the exception. --keys lists every field of its config classes.
"""
import dataclasses
import enum
import os
import sys
import typing
from unittest import mock


class SamplerType(enum.Enum):
    TOP_P = enum.auto()
    TOP_K = enum.auto()
    GREEDY = enum.auto()
    BASIC = enum.auto()


class TensorParallelLinearMode(enum.Enum):
    ALL_REDUCE = enum.auto()
    REDUCE_SCATTER = enum.auto()


class PipelineEngine:
    pass


class AllForwardAllBackward(PipelineEngine):
    pass


class OneForwardOneBackward(PipelineEngine):
    pass


def import_config():
    for name in (
        "logging",
        "distributed",
        "parallel",
        "generation",
        "generation.sampler",
        "parallel.pipeline_parallel",
        "parallel.pipeline_parallel.engine",
        "parallel.tensor_parallel",
        "parallel.tensor_parallel.nn",
    ):
        sys.modules["nanotron." + name] = mock.MagicMock()
    sys.modules["nanotron.generation.sampler"].SamplerType = SamplerType
    tensor = sys.modules["nanotron.parallel.tensor_parallel.nn"]
    tensor.TensorParallelLinearMode = TensorParallelLinearMode
    engine = sys.modules["nanotron.parallel.pipeline_parallel.engine"]
    engine.PipelineEngine = PipelineEngine
    engine.AllForwardAllBackwardPipelineEngine = AllForwardAllBackward
    engine.OneForwardOneBackwardPipelineEngine = OneForwardOneBackward
    import nanotron.config

    return nanotron.config


def walk(cls, prefix=""):
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        yield prefix + field.name
        hint = hints[field.name]
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                yield from walk(part, prefix + field.name + ".")


def verdict(config, path):
    try:
        loaded = config.get_config_from_file(path)
    except Exception as error:
        text = " ".join(str(error).split())
        return "refused", f"{type(error).__name__}: {text[:110]}"
    kind = type(loaded.model.model_config).__name__
    return ("loads", "") if kind != "dict" else ("untyped", "")


def main():
    config = import_config()
    if sys.argv[1:] == ["--keys"]:
        print(*sorted(set(walk(config.Config))), sep="\n")
        return
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            if file.readline().strip() == "# layout = 0.4":
                print(os.path.basename(path), *verdict(config, path), sep="\t")


if __name__ == "__main__":
    main()
