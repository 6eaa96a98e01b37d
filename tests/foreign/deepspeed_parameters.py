#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists what the classes take that the installed DeepSpeed makes of
optimizer.params and scheduler.params, and torch's beside them.

usage: deepspeed_parameters.py    prints KIND NAME PARAMETER… | NEEDED… a line
"""
import inspect
import logging
import os
import re
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402

import deepspeed  # noqa: E402
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad  # noqa: E402
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam  # noqa: E402
from deepspeed.ops.lamb import FusedLamb  # noqa: E402
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion  # noqa: E402
from deepspeed.runtime import config, engine, lr_schedules  # noqa: E402

ENGINE = engine.DeepSpeedEngine
# Functions and other schedules are nothing that JSON can say.
UNSAYABLE = {"ChainedScheduler", "LambdaLR", "LRScheduler",
             "MultiplicativeLR", "SequentialLR"}


def engine_takes():
    """What the engine pops of Adam's keys before it calls the class."""
    source = inspect.getsource(ENGINE._configure_basic_optimizer)
    source += inspect.getsource(ENGINE.get_optimizer_configuration)
    names = set(re.findall(r"optimizer_parameters\.pop\(([\w']+)", source))
    return {name.strip("'") if name.startswith("'") else
            getattr(config, name) for name in names} - {"foreach"}


def parameters(cls):
    """All of them but self and the parameters to train, and those without a
    default."""
    found = list(inspect.signature(cls.__init__).parameters.values())[2:]
    return ([p.name for p in found],
            [p.name for p in found if p.default is p.empty])


def adam(cls):
    # The engine gives the mode itself.
    names = set(parameters(cls)[0]) - {"adam_w_mode", "adamw_mode"}
    return names | engine_takes()


def optimizers():
    yield "adam.fused", adam(FusedAdam)
    yield "adam.cpu", adam(DeepSpeedCPUAdam)
    yield "adam.torch", adam(torch.optim.Adam)
    yield "adamw.torch", adam(torch.optim.AdamW)
    yield "adagrad.cpu", parameters(DeepSpeedCPUAdagrad)[0]
    yield "lamb", parameters(FusedLamb)[0]
    yield "lion.fused", parameters(FusedLion)[0]
    yield "lion.cpu", parameters(DeepSpeedCPULion)[0]
    yield "muon", ({"muon_lr", "adam_lr", "foreach"} | engine_takes()
                   | set(ENGINE._MUON_HALF_KEYS) | set(ENGINE._ADAM_HALF_KEYS))
    for name, cls in inspect.getmembers(torch.optim, inspect.isclass):
        is_own = name.lower() in config.DEEPSPEED_OPTIMIZERS
        if cls is not torch.optim.Optimizer and (
                not is_own or name == "Adagrad"):
            yield name, parameters(cls)[0]


def schedules():
    for name in lr_schedules.VALID_LR_SCHEDULES:
        yield name, parameters(getattr(lr_schedules, name))
    torchs = torch.optim.lr_scheduler
    for name, cls in inspect.getmembers(torchs, inspect.isclass):
        if (issubclass(cls, torchs.LRScheduler) and name[0] != "_"
                and name not in UNSAYABLE):
            yield name, parameters(cls)


def main():
    sys.stdout.write(f"# deepspeed {deepspeed.__version__}, "
                     f"torch {torch.__version__.partition('+')[0]}\n")
    for name, names in optimizers():
        sys.stdout.write(f"optimizer {name} {' '.join(sorted(names))} |\n")
    for name, (names, needed) in schedules():
        line = f"schedule {name} {' '.join(sorted(names))} | "
        sys.stdout.write((line + " ".join(needed)).rstrip() + "\n")


if __name__ == "__main__":
    main()
