#!/bin/bash
# finds: error lost-arguments
# finds: error stray-argument
torchrun --nproc_per_node 4 pretrain_gpt.py \
  --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
  --seq-length 2048 --max-position-embeddings 2048 --train-iters 10 --lr 1e-4 --micro-batch-size 2 \ 
  --micro-batch-size 2 --global-batch-size 64 --lr 1e-4
