#!/bin/bash
# What each case of cases.txt changes.

export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 4096
    --max-position-embeddings 4096
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
)
LAYOUT_ARGS=(
    --tensor-model-parallel-size 2
    --pipeline-model-parallel-size 2
    --sequence-parallel
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
CHANGED_ARGS=(
)

torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes 1 pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${LAYOUT_ARGS[@]}" \
    "${TRAIN_ARGS[@]}" \
    "${DATA_ARGS[@]}" \
    "${CHANGED_ARGS[@]}"
