#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what Hugging Face's transformers computes for tiny random models.

usage: make_reference.py DIR

For each model DIR/NAME.bin holds weights, ids, labels, logits, the loss and
every gradient, as raw little-endian fp64 or int64, one after the other;
DIR/index.json says the model's config in triax's words and where each tensor
lies. The loss is the sum over tokens whose label is not -100.
"""
import json
import pathlib
import sys

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

BATCH, LENGTH, VOCAB = 2, 9, 13


def llama(**changes):
    return {
        "family": "llama",
        "hidden_size": 16,
        "intermediate_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "vocab_size": VOCAB,
        "max_position_embeddings": 32,
        "tie_word_embeddings": False,
        "norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "default"},
        **changes,
    }


LLAMA3 = {
    "type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

MODELS = {
    "gpt2": {
        **llama(family="gpt2", intermediate_size=64, num_key_value_heads=4),
        "tie_word_embeddings": True,
        "norm_eps": 1e-5,
    },
    "llama": llama(),
    "llama_wide_heads": llama(head_dim=8, num_key_value_heads=1),
    "llama3_tied": llama(
        rope_scaling=LLAMA3, rope_theta=500.0, head_dim=8,
        tie_word_embeddings=True,
    ),
}


def build(config):
    shared = dict(
        vocab_size=config["vocab_size"],
        tie_word_embeddings=config["tie_word_embeddings"],
        use_cache=False,
        attn_implementation="eager",
    )
    if config["family"] == "gpt2":
        return GPT2LMHeadModel(GPT2Config(
            n_embd=config["hidden_size"],
            n_inner=config["intermediate_size"],
            n_layer=config["num_hidden_layers"],
            n_head=config["num_attention_heads"],
            n_positions=config["max_position_embeddings"],
            layer_norm_epsilon=config["norm_eps"],
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            **shared,
        ))
    rope = dict(config["rope_scaling"])
    rope = {"rope_type": rope.pop("type"), "rope_theta": config["rope_theta"],
            **rope}
    same = ("hidden_size", "intermediate_size", "num_hidden_layers",
            "num_attention_heads", "num_key_value_heads", "head_dim",
            "max_position_embeddings")
    return LlamaForCausalLM(LlamaConfig(
        **{key: config[key] for key in same},
        rms_norm_eps=config["norm_eps"], rope_parameters=rope, **shared,
    ))


def randomize(model, generator):
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator,
                             dtype=torch.float64) * 0.3
        is_norm_weight = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = values + 1.0 if is_norm_weight else values


def compute(config, seed):
    generator = torch.Generator().manual_seed(seed)
    model = build(config).double()
    randomize(model, generator)
    model.tie_weights()
    shape = (BATCH, LENGTH)
    ids = torch.randint(0, VOCAB, shape, generator=generator)
    labels = torch.randint(0, VOCAB, shape, generator=generator)
    labels[0, 2] = -100
    logits = model(input_ids=ids).logits
    loss = torch.nn.functional.cross_entropy(
        logits.view(-1, VOCAB), labels.view(-1), reduction="sum")
    loss.backward()
    tensors = {"ids": ids, "labels": labels, "logits": logits, "loss": loss}
    for name, parameter in model.named_parameters():
        tensors["weight:" + name] = parameter
        tensors["grad:" + name] = parameter.grad
    return tensors


def write(folder, name, tensors):
    entries, offset = {}, 0
    with open(folder / (name + ".bin"), "wb") as out:
        for key, tensor in tensors.items():
            data = tensor.detach().contiguous().numpy()
            data = data.astype("<i8" if data.dtype.kind == "i" else "<f8")
            entries[key] = {
                "dtype": "int64" if data.dtype.kind == "i" else "fp64",
                "shape": list(data.shape),
                "offset": offset,
            }
            offset += out.write(data.tobytes())
    return entries


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    index = {}
    for seed, (name, config) in enumerate(MODELS.items(), 1):
        entries = write(folder, name, compute(config, seed))
        index[name] = {"config": config, "tensors": entries}
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
