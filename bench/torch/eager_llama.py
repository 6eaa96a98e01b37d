#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of model_step_bench: the same model in PyTorch eager, composed as
transformers composes it. usage: eager_llama.py [STEPS [THREADS]]; prints one
JSON line.
"""
import json
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

V, H, INNER, LAYERS, HEADS = 8192, 512, 1376, 8, 8


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(H))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x * scale)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.norm1, self.norm2 = Norm(), Norm()
        self.q, self.k, self.v, self.o = (linear(H, H) for _ in range(4))
        self.gate, self.up = linear(H, INNER), linear(H, INNER)
        self.down = linear(INNER, H)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q, k, v = (f(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, H)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(H, V, bias=False)

    def forward(self, ids):
        d = H // HEADS
        inverse = 1.0 / 10000.0 ** (torch.arange(0, d, 2).float() / d)
        angles = torch.outer(torch.arange(ids.shape[1]).float(), inverse)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    model, times, cpu_times = Llama(), [], []
    for _ in range(steps):
        ids = torch.randint(0, V, (2, 257))
        start, cpu_start = time.perf_counter(), time.process_time()
        model.zero_grad(set_to_none=True)
        logits = model(ids[:, :-1])
        F.cross_entropy(logits.view(-1, V), ids[:, 1:].reshape(-1)).backward()
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"program": "pytorch", "fastest_s": round(min(times), 4),
                      "median_s": round(statistics.median(times), 4),
                      "cpu_s": round(statistics.median(cpu_times), 4),
                      "peak_mib": round(peak)}))


if __name__ == "__main__":
    main()
