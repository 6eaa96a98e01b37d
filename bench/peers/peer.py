#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of the step benches: PyTorch's own parallelism on the same work.

usage: peer.py MODE MODEL [--ranks N] [--threads N] [--steps N] [--micro B]
               [--seq T] [--accum A] [--bf16]
MODE   single | ddp | tp | pp | fsdp2, PyTorch's, over Gloo
       ds1 | ds2 | ds3, DeepSpeed's ZeRO stages, over Gloo
MODEL  llama-s (8 layers of 512) | llama-m (12 of 768) | llama-tiny (2 of 64)

Prints one JSON line: the median step without the first (step_s), tokens/s, the
loss of each step, and of the rank with most the resident memory in MB: the peak
(rss_mb), what it was just before the model was made (start_rss_mb) and by how
much it grew (grown_rss_mb). Needs torch, numpy, transformers and, for the ds
modes, deepspeed (tools/setup_bench.sh).
"""
import argparse
import glob
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

VOCAB_SIZE = 8192
# layers, hidden size, intermediate size, heads
MODELS = {"llama-s": (8, 512, 1376, 8), "llama-m": (12, 768, 2048, 12),
          "llama-tiny": (2, 64, 172, 4)}
TORCH_MODES = ["single", "ddp", "tp", "pp", "fsdp2"]
DEEPSPEED_MODES = ["ds1", "ds2", "ds3"]
REPLICATED_MODES = ["ddp", "fsdp2"] + DEEPSPEED_MODES  # each rank: other data


def make_model(name):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    layers, hidden, intermediate, heads = MODELS[name]
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=hidden,
        intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads,
        max_position_embeddings=1024, use_cache=False))


def make_batches(options, seed):
    generator = torch.Generator().manual_seed(seed)

    def batch():
        tokens = torch.randint(0, VOCAB_SIZE, (options.micro, options.seq + 1),
                               generator=generator)
        return tokens[:, :-1], tokens[:, 1:]
    return batch


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.float().view(-1, VOCAB_SIZE),
                           targets.reshape(-1))


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True)


def split_layers(model, ranks):
    """Tensor parallelism: the embedding, the head and every block."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)

    mesh = init_device_mesh("cpu", (ranks,))
    parallelize_module(model, mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(output_layouts=Replicate())})
    for block in model.model.layers:
        parallelize_module(block, mesh, {
            "self_attn.q_proj": ColwiseParallel(),
            "self_attn.k_proj": ColwiseParallel(),
            "self_attn.v_proj": ColwiseParallel(),
            "self_attn.o_proj": RowwiseParallel(),
            "mlp.gate_proj": ColwiseParallel(),
            "mlp.up_proj": ColwiseParallel(),
            "mlp.down_proj": RowwiseParallel()})


def shard_fully(model):
    """FSDP2: every block a unit, embedding, last norm and head the root's."""
    from torch.distributed.fsdp import fully_shard

    for block in model.model.layers:
        fully_shard(block)
    fully_shard(model)


def make_optimizers(model):
    """The fused kernel takes no mixture of tensors and DTensors."""
    from torch.distributed.tensor import DTensor

    kinds = [[p for p in model.parameters() if isinstance(p, DTensor) == kind]
             for kind in (True, False)]
    return [adamw(kind) for kind in kinds if kind]


def make_step(rank, options):
    """single, ddp, tp, fsdp2: microbatches one after the other, then AdamW."""
    model = make_model(options.model)
    if options.mode == "tp":
        split_layers(model, options.ranks)
    if options.mode == "fsdp2":
        shard_fully(model)
    if options.mode == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizers = make_optimizers(model)
    batch = make_batches(
        options, 7 + (rank if options.mode in REPLICATED_MODES else 0))

    def step():
        total = 0.0
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        for index in range(options.accum):
            if options.mode == "ddp":
                model.require_backward_grad_sync = index == options.accum - 1
            tokens, targets = batch()
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                logits = model(input_ids=tokens).logits
            loss = cross_entropy(logits, targets) / options.accum
            loss.backward()
            total += loss.item()
        for optimizer in optimizers:
            optimizer.step()
        return total
    return step


BUCKET_NUMEL = (25 << 20) // 4  # triax's and DDP's default, in fp32 elements


def deepspeed_config(options):
    """Where nothing stands, DeepSpeed's default. The buckets' sizes and
    overlap_comm (a CPU has no streams) were faster so in each stage."""
    return {"train_micro_batch_size_per_gpu": options.micro,
            "gradient_accumulation_steps": options.accum,
            "zero_optimization": {
                "stage": int(options.mode[2:]), "overlap_comm": False,
                "reduce_bucket_size": BUCKET_NUMEL,
                "allgather_bucket_size": BUCKET_NUMEL,
                "stage3_prefetch_bucket_size": BUCKET_NUMEL},
            "bf16": {"enabled": options.bf16},
            "zero_allow_untested_optimizer": True,
            "steps_per_print": 10**9}


def deepspeed_optimizer(options, parameters):
    if options.optimizer == "torch":
        return adamw(parameters)
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    return DeepSpeedCPUAdam(parameters, lr=1e-4, weight_decay=0.01)


def make_deepspeed_step(rank, options):
    import deepspeed

    model = make_model(options.model)
    engine, _, _, _ = deepspeed.initialize(
        model=model, config=deepspeed_config(options),
        optimizer=deepspeed_optimizer(options, model.parameters()))
    batch = make_batches(options, 7 + rank)

    def step():
        total = 0.0
        for _ in range(options.accum):
            tokens, targets = batch()
            loss = cross_entropy(engine(input_ids=tokens).logits, targets)
            engine.backward(loss)
            engine.step()
            total += loss.item()
        return total / options.accum
    return step


class Stage(torch.nn.Module):
    """One rank's layers; the first has the embedding, the last the head."""

    def __init__(self, model, rank, ranks):
        super().__init__()
        layers = model.model.layers
        per_rank = (len(layers) + ranks - 1) // ranks
        is_last = rank == ranks - 1
        self.embedding = model.model.embed_tokens if rank == 0 else None
        self.layers = torch.nn.ModuleList(
            layers[rank * per_rank:(rank + 1) * per_rank])
        self.rotary = model.model.rotary_emb
        self.norm = model.model.norm if is_last else None
        self.head = model.lm_head if is_last else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        positions = torch.arange(x.shape[1])[None]
        angles = self.rotary(x, positions)
        for layer in self.layers:
            x = layer(x, position_embeddings=angles, position_ids=positions)
            x = x[0] if isinstance(x, tuple) else x
        return self.head(self.norm(x)) if self.norm is not None else x


def make_pipeline_step(rank, options):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage = Stage(make_model(options.model), rank, options.ranks)
    schedule = Schedule1F1B(
        PipelineStage(stage, rank, options.ranks, torch.device("cpu")),
        options.accum, loss_fn=cross_entropy)
    optimizer = adamw(stage.parameters())
    batch = make_batches(options, 7)

    def step():
        batches = [batch() for _ in range(options.accum)]
        losses = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(torch.cat([tokens for tokens, _ in batches]))
        elif rank == options.ranks - 1:
            schedule.step(target=torch.cat([targets for _, targets in batches]),
                          losses=losses)
        else:
            schedule.step()
        optimizer.step()
        return sum(loss.item() for loss in losses) / max(1, len(losses))
    return step


def join_group(rank, options):
    address = f"tcp://127.0.0.1:{options.port}"
    if options.mode not in DEEPSPEED_MODES:
        dist.init_process_group("gloo", init_method=address, rank=rank,
                                world_size=options.ranks)
        return
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(options.ranks),
                      LOCAL_SIZE=str(options.ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    import deepspeed

    deepspeed.init_distributed("gloo", init_method=address, rank=rank,
                               world_size=options.ranks, verbose=False)


def resident_mb(name):
    """VmRSS, or VmHWM: its peak, shared pages included."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def memory_of_ranks(start, options):
    """Of the rank with most; all ranks must call."""
    peak = resident_mb("VmHWM")
    mine = {"rss_mb": peak, "start_rss_mb": start, "grown_rss_mb": peak - start}
    ranks = [mine]
    if options.ranks > 1:
        ranks = [None] * options.ranks
        dist.all_gather_object(ranks, mine)
    most = max(ranks, key=lambda rank: rank["grown_rss_mb"])
    return {key: round(value, 1) for key, value in most.items()}


def make_step_of_mode(rank, options):
    if options.mode in DEEPSPEED_MODES:
        return make_deepspeed_step(rank, options)
    if options.mode == "pp":
        return make_pipeline_step(rank, options)
    return make_step(rank, options)


def import_all(options):
    """What the steps would import: no part of the model's memory."""
    import torch._dynamo  # optimizers ask it
    import transformers.models.llama.modeling_llama
    if options.mode == "fsdp2":
        import torch.distributed.fsdp
    if options.mode in DEEPSPEED_MODES:
        import deepspeed


def run_rank(rank, options):
    import_all(options)
    torch.set_num_threads(options.threads)
    if options.mode != "single":
        join_group(rank, options)
    start_rss = resident_mb("VmRSS")
    step = make_step_of_mode(rank, options)
    seconds, losses = [], []
    for _ in range(options.steps):
        start = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - start)
    memory = memory_of_ranks(start_rss, options)
    if rank == (options.ranks - 1 if options.mode == "pp" else 0):
        median = statistics.median(seconds[1:])
        replicas = options.ranks if options.mode in REPLICATED_MODES else 1
        tokens = options.micro * options.seq * options.accum * replicas
        print(json.dumps({
            "mode": options.mode, "model": options.model,
            "ranks": options.ranks, "threads": torch.get_num_threads(),
            "bf16": options.bf16, "step_s": round(median, 5),
            "tokens_per_s": round(tokens / median, 1),
            "losses": [round(loss, 5) for loss in losses]} | memory),
            flush=True)
    if options.mode != "single":
        dist.barrier()
    os._exit(0)  # threads of Gloo may outlive the group


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def remove_shared_buffers(port):
    """DeepSpeed leaves those of its ranks behind, 66 MiB each."""
    for path in glob.glob(f"/dev/shm/deepspeed_*_{port}_*"):
        os.unlink(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=TORCH_MODES + DEEPSPEED_MODES)
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1,
                        help="of each rank")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--micro", type=int, default=2)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--optimizer", choices=["torch", "deepspeed"],
                        default="torch", help="of the ds modes")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps: the first step is not counted; take 2 or more")
    if options.mode == "pp" and options.bf16:
        parser.error("--bf16 is not offered with pp")
    if options.mode == "single":
        options.ranks = 1
        run_rank(0, options)
    options.port = free_port()
    try:
        torch.multiprocessing.spawn(run_rank, (options,), options.ranks)
    finally:
        remove_shared_buffers(options.port)


if __name__ == "__main__":
    main()
