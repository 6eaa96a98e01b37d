#!/bin/bash
# finds: error lost-arguments
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 pretrain_gpt.py \
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 2 --global-batch-size 64 --train-iters 10 --lr 1e-4 \
    # --recompute-activations \
    --tensor-model-parallel-size 8 \
    --bf16
