# SPDX-License-Identifier: Apache-2.0
"""What TorchTitan 0.2.2 itself says of each config in tests/cases/torchtitan.

usage: python3 tests/foreign/torchtitan_verdicts.py FILE.toml... > \
           tests/cases/torchtitan/verdicts.tsv
Needs torchtitan==0.2.2, torchao, tyro with docstring_parser and typeguard, and
torch 2.13 (the CPU wheel will do). A first line "# world = 8" sets the ranks;
without one only the loader is asked.

One line each: the file, "loads" or "refused", "starts", "fails" or "-", and
the exception. "starts" means that the trainer's own constructor passed, up to
the tokenizer and the data, which are left out: process groups of the fake
backend, meshes, the model on the meta device, its parallel form, the
pipeline, the optimizer, the schedule and the checkpointer.
"""
import contextlib
import dataclasses
import io
import multiprocessing
import os
import re
import sys
from unittest import mock

import torchtitan_stand_ins


def first_words(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:120]}"


def import_once():
    """Before the forks, which then take a fraction of a second each."""
    import torch

    torch._utils._get_available_device_type = lambda: "cpu"
    torch.set_num_threads(1)
    import torchtitan.train


def load(path):
    from torchtitan.config import ConfigManager

    return ConfigManager().parse_args([f"--job.config_file={path}"])


def no_metrics():
    metrics = mock.MagicMock()
    monitor = metrics.device_memory_monitor
    monitor.device_name = "H100"
    monitor.get_peak_stats.return_value.max_reserved_gib = 0.0
    monitor.get_peak_stats.return_value.max_reserved_pct = 0.0
    return metrics


def without_data(spec):
    return dataclasses.replace(
        spec,
        build_tokenizer_fn=None,
        build_dataloader_fn=None,
        build_validator_fn=spec.build_validator_fn and (lambda **_: None),
        build_metrics_processor_fn=lambda *_: no_metrics(),
        state_dict_adapter=None,
    )


class NoCheckpoints:
    """Keeps the constructor's checks, drops what needs a data loader."""

    def __init__(self, checkpoint_config, **_):
        if checkpoint_config.enable and checkpoint_config.keep_latest_k == 1:
            raise ValueError("We need to maintain at least 2 replicas")
        if checkpoint_config.async_mode.lower() not in (
            "disabled",
            "async",
            "async_with_pinned_mem",
        ):
            raise ValueError("Unknown checkpoint async_mode")

    def close(self):
        pass


def start(config, world):
    os.environ.update(
        NGPU=str(world), WORLD_SIZE=str(world), RANK="0", LOCAL_RANK="0"
    )
    import torch
    import torchtitan.protocols.train_spec as specs
    import torchtitan.tools.utils as tools
    from torchtitan import train

    config.comm.mode = "fake_backend"
    config.job.dump_folder = "/tmp/torchtitan-verdicts"
    spec = without_data(specs.get_train_spec(config.model.name))
    train.train_spec_module.get_train_spec = lambda _: spec
    train.CheckpointManager = NoCheckpoints
    # The values of the weights are nobody's concern here.
    torch.nn.Module.to_empty = lambda self, **_: self
    spec.model_cls.init_weights = lambda self, **_: None
    for module in list(sys.modules.values()):
        if getattr(module, "has_cuda_capability", None) is not None:
            module.has_cuda_capability = lambda *_: True
    train.Trainer(config)


def verdict(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        world = re.match(r"# world = (\d+)", file.readline())
    try:
        config = load(path)
    except BaseException as error:
        return "refused", "-", first_words(error)
    if world is None:
        return "loads", "-", ""
    try:
        start(config, int(world[1]))
    except BaseException as error:
        return "loads", "fails", first_words(error)
    return "loads", "starts", ""


def work(path, pipe):
    with contextlib.redirect_stdout(io.StringIO()):
        pipe.send(verdict(path))


def main():
    import_once()
    context = multiprocessing.get_context("fork")
    for path in sys.argv[1:]:
        mine, theirs = context.Pipe()
        process = context.Process(target=work, args=(path, theirs))
        process.start()
        result = mine.recv() if mine.poll(300) else ("?", "?", "no answer")
        process.kill()
        print(os.path.basename(path), *result, sep="\t", flush=True)


if __name__ == "__main__":
    main()
