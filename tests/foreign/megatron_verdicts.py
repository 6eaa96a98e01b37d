#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Megatron-LM's own code says of each command in tests/cases/megatron.

    pip install megatron-core==0.19.2 torch packaging numpy   (Python 3.12)
    python3 tests/foreign/megatron_verdicts.py \
        > tests/cases/megatron/verdicts.txt

A case is base.sh with the changes of cases.txt: a shell script that ends in a
command torchrun … pretrain_gpt.py …; bash runs it with a torchrun of ours that
prints its arguments. They go through parse_args, validate_args, the number of microbatches, the configs of
the model, the optimizer and of data parallelism, the tokenizer and the data as
far as they need no file and no network, and the layout of ranks, for the world
size that the launcher says, as rank 0 on a Hopper with
Transformer Engine 2.8; nothing is trained and no GPU is needed.

One line a case: NAME accepted, or NAME refused REASON.
"""
import contextlib
import io
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

FOLDER = pathlib.Path(__file__).parent.parent / "cases" / "megatron"
LAUNCHER = """#!/usr/bin/env python3
import os, sys
with open(os.environ["CASE_ARGUMENTS"], "w") as out:
    out.write(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "") + "\\0")
    out.write("\\0".join(sys.argv[1:]))
"""


def key_of(line):
    """"--seq-length" of "    --seq-length 4096", "export X" of "export X=1"."""
    return re.match(r"\s*((?:export )?[^ =]*)", line)[1]


def change(lines, line):
    removes = line.startswith("without ")
    key = key_of(line.removeprefix("without "))
    for i, old in enumerate(lines):
        if key_of(old) == key:
            lines[i:i + 1] = [] if removes else [line]
            return
    lines.insert(lines.index(")", lines.index("CHANGED_ARGS=(")), line)


def cases():
    """(name, script) of each; tests/check/megatron_cases.h does the same."""
    base = (FOLDER / "base.sh").read_text().splitlines()
    name, lines = None, []
    for line in (FOLDER / "cases.txt").read_text().splitlines():
        if line.startswith("["):
            if name:
                yield name, "\n".join(lines) + "\n"
            name, lines = line[1:-1], list(base)
        elif line and not line.startswith(("#", "finds:", "notes:", "unjudged:")):
            change(lines, line)
    yield name, "\n".join(lines) + "\n"


def arguments_of(script):
    """(CUDA_DEVICE_MAX_CONNECTIONS, world, Megatron-LM's arguments)."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = pathlib.Path(folder) / "torchrun"
        launcher.write_text(LAUNCHER)
        launcher.chmod(0o755)
        out = pathlib.Path(folder) / "arguments"
        env = {"PATH": f"{folder}:/usr/bin:/bin", "CASE_ARGUMENTS": str(out),
               "HOME": folder}
        subprocess.run(["bash", "-c", script], env=env, cwd=folder,
                       capture_output=True, timeout=20)
        connections, *words = out.read_text().split("\0")
    at = next(i for i, word in enumerate(words) if word.endswith(".py"))
    sizes = {"nproc-per-node": 1, "nnodes": 1}
    for i in range(at):
        name, _, value = words[i].lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in sizes and words[i].startswith("--"):
            sizes[name] = int(value or words[i + 1])
    return connections, sizes["nproc-per-node"] * sizes["nnodes"], words[at + 1:]


def stand_in_for_a_gpu():
    import torch
    import megatron.core.utils as core_utils
    import megatron.training.arguments as arguments
    core_utils._te_version = "2.8.0"
    yes = lambda *args, **kwargs: True
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    arguments.get_device_arch_version = lambda: 9
    arguments.is_te_min_version = yes
    arguments.is_flashinfer_min_version = yes
    import megatron.core.transformer.transformer_config as transformer
    transformer.is_te_min_version = yes
    import megatron.core.optimizer.optimizer_config as optimizer
    optimizer.is_te_min_version = yes
    # Fused kernels are there where Transformer Engine is.
    import megatron.core.models.common.embeddings.rope_utils as rope
    rope.fused_apply_rotary_pos_emb = yes
    import megatron.core.transformer.moe.moe_utils as moe
    for name in ("fused_permute", "fused_permute_with_probs", "fused_unpermute",
                 "fused_sort_chunks_by_index",
                 "fused_sort_chunks_by_index_with_probs"):
        setattr(moe, name, yes)


def fused_adam_stand_in():
    import types
    package = types.ModuleType("transformer_engine.pytorch.optimizers")

    class FusedAdam:
        def __init__(self, params=None, master_weight_dtype=None,
                     exp_avg_dtype=None, exp_avg_sq_dtype=None,
                     use_decoupled_grad=None):
            pass

    package.FusedAdam = FusedAdam
    for name in ("transformer_engine", "transformer_engine.pytorch"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["transformer_engine.pytorch.optimizers"] = package


def judge(connections, world, words):
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.num_microbatches_calculator import (
        _build_num_microbatches_calculator)
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.training import arguments, training
    os.environ["WORLD_SIZE"] = str(world)
    os.environ["RANK"] = "0"
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if connections:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = connections
    sys.argv = ["pretrain_gpt.py"] + words
    args = arguments.parse_args()
    arguments.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})
    calculator = _build_num_microbatches_calculator(
        0, args.global_batch_size, args.micro_batch_size,
        args.data_parallel_size, args.decrease_batch_size_if_needed,
        args.step_batch_size_schedule, args.seq_length)
    config = arguments.core_transformer_config_from_args(args)
    training.get_megatron_optimizer_config(args)
    training.get_megatron_ddp_config(args)
    check_ranks(args, world)
    check_schedule(args, config, calculator.get())
    check_learning_rate(args, OptimizerParamScheduler)
    check_tokenizer(args)
    check_data(args)


def check_tokenizer(args):
    """Those of GPT-2 and BERT would be downloaded, others read from files."""
    from megatron.core.tokenizers.utils.build_tokenizer import (
        MEGATRON_TOKENIZERS, build_tokenizer)
    if args.tokenizer_type not in MEGATRON_TOKENIZERS and not args.tokenizer_model:
        build_tokenizer(args)


def check_data(args):
    """As pretrain_gpt.py builds them, where there are no files to look at."""
    import argparse
    from megatron.core.datasets.blended_megatron_dataset_builder import (
        BlendedMegatronDatasetBuilder)
    from megatron.core.datasets.gpt_dataset import (
        GPTDataset, GPTDatasetConfig, MockGPTDataset)
    from megatron.core.tokenizers.utils.build_tokenizer import build_tokenizer
    from megatron.training.utils import get_blend_and_blend_per_split
    if args.sft or args.skip_train or any(get_blend_and_blend_per_split(args)):
        return
    null = argparse.Namespace(tokenizer_type="NullTokenizer", vocab_size=100,
                              pad_vocab_size=False)
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=8, tokenizer=build_tokenizer(null),
        reset_position_ids=False, reset_attention_mask=False,
        eod_mask_loss=False)
    BlendedMegatronDatasetBuilder(
        MockGPTDataset if args.mock_data else GPTDataset, [10, 1, 1],
        lambda: True, config).build()


def check_ranks(args, world):
    """parallel_state's arithmetic over the experts' ranks."""
    unit = (args.expert_tensor_parallel_size * args.expert_model_parallel_size
            * args.pipeline_model_parallel_size)
    if world % unit:
        raise RuntimeError(f"world_size ({world}) is not divisible by {unit}")


def check_schedule(args, config, count):
    """The interleaved schedule's first two checks."""
    if args.virtual_pipeline_model_parallel_size is None:
        return
    group = (config.microbatch_group_size_per_vp_stage
             or args.pipeline_model_parallel_size)
    if group > count or group < args.pipeline_model_parallel_size:
        raise ValueError("microbatches of a virtual stage")
    if 0 < count % group < args.pipeline_model_parallel_size:
        raise RuntimeError("the remainder of microbatches")


def check_learning_rate(args, scheduler_class):
    import types
    if args.skip_train:
        return
    if not args.train_iters and not args.train_samples:
        raise Exception("either train-iters or train-samples")
    by_steps = bool(args.train_iters)
    length = args.train_iters if by_steps else args.train_samples
    decay = (args.lr_decay_iters if by_steps else args.lr_decay_samples) or length
    warmup = args.lr_warmup_iters if by_steps else args.lr_warmup_samples
    if args.lr_warmup_fraction is not None:
        warmup = args.lr_warmup_fraction * decay
    wsd = args.lr_wsd_decay_iters if by_steps else args.lr_wsd_decay_samples
    optimizer = types.SimpleNamespace(param_groups=[])
    scheduler_class(
        optimizer, init_lr=args.lr_warmup_init, max_lr=args.lr,
        min_lr=args.min_lr, lr_warmup_steps=warmup, lr_decay_steps=decay,
        lr_decay_style=args.lr_decay_style, start_wd=args.start_weight_decay,
        end_wd=args.end_weight_decay, wd_incr_steps=length,
        wd_incr_style=args.weight_decay_incr_style, wsd_decay_steps=wsd,
        lr_wsd_decay_style=args.lr_wsd_decay_style)


def verdict(script):
    said = io.StringIO()
    try:
        connections, world, words = arguments_of(script)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            judge(connections, world, words)
        return "accepted"
    except SystemExit:
        lines = said.getvalue().strip().splitlines() or ["exit"]
        return "refused " + lines[-1]
    except Exception as error:  # whatever it stops with is a refusal
        text = str(error).splitlines()
        return f"refused {type(error).__name__}: {text[0] if text else ''}"


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    stand_in_for_a_gpu()
    import megatron.training.training  # before there is a package to find
    fused_adam_stand_in()
    for name, script in cases():
        print(name, verdict(script)[:160])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
