#!/bin/bash
# What comes from outside is not judged: neither tp nor the batch is known.
# unjudged: --tensor-model-parallel-size
TP=$1
if [ "$BIG" = "yes" ]; then GBS=512; else GBS=64; fi
source ./cluster.env
python -m torch.distributed.launch --nproc_per_node=$(nproc) --nnodes=$WORLD pretrain_gpt.py \
  --tensor-model-parallel-size $TP --num-layers 31 --hidden-size 2048 \
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 3 --global-batch-size $GBS --train-iters 10 --lr 1e-4 \
  --overlap-param-gather $EXTRA_ARGS
