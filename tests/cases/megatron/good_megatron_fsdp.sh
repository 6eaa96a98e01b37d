#!/bin/bash

GPUS_PER_NODE=8
NNODES=1

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
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
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
    --use-megatron-fsdp
    --ckpt-format fsdp_dtensor
    --use-distributed-optimizer
    --data-parallel-sharding-strategy optim_grads_params
    --no-gradient-accumulation-fusion
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
