#!/bin/bash

GPUS_PER_NODE=4
NNODES=1

MODEL_ARGS=(
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
)
LAYOUT_ARGS=(
    --tensor-model-parallel-size 1
)
TRAIN_ARGS=(
    --micro-batch-size 1
    --global-batch-size 64
    --train-iters 1000
    --lr 3e-4
    --min-lr 3e-5
    --lr-decay-style cosine
    --lr-warmup-iters 100
    --weight-decay 0.1
    --clip-grad 1.0
    --bf16
)
DATA_ARGS=(
    --mock-data
    --tokenizer-type NullTokenizer
    --vocab-size 32000
)

torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${LAYOUT_ARGS[@]}" \
    "${TRAIN_ARGS[@]}" \
    "${DATA_ARGS[@]}"
