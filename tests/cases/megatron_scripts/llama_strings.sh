#!/usr/bin/env bash
# Strings with continued lines, defaults from the environment, a tee.
# notes: no-effect initial-loss-scale
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-"1"}
TP=${TP:-2}
MBS=${MBS:=1}
DATA_DIR="${DATA_DIR:-/data}"
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
LAUNCH="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES"

GPT_ARGS="
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size 1 \
    --sequence-parallel \
    --num-layers 32 \
    --hidden-size 4096 \
    --ffn-hidden-size 11008 \
    --num-attention-heads 32 \
    --seq-length 4096 \
    --max-position-embeddings 4096 \
    --micro-batch-size $MBS \
    --global-batch-size $((MBS * 256)) \
    --lr 1.25e-6 \
    --train-iters 5000 \
    --lr-decay-style cosine \
    --untie-embeddings-and-output-weights \
    --disable-bias-linear \
    --position-embedding-type rope \
    --normalization RMSNorm \
    --swiglu \
    --min-lr 1.25e-7 \
    --initial-loss-scale 65536 \
    --bf16
"
DATA_ARGS="
    --data-path ${DATA_DIR}/corpus_text_document \
    --tokenizer-type Llama2Tokenizer \
    --tokenizer-model ${DATA_DIR}/tokenizer.model \
    --split 100,0,0
"
$LAUNCH pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    --distributed-backend nccl 2>&1 | tee logs/train_$(date +%s).log
