#!/bin/bash
# One letter away stays a slip, whoever's the other arguments are.
# finds: error unknown-key micro-batch-sise
# finds: error unknown-key tensor_model_parallel_size
torchrun --nproc_per_node 8 pretrain_own.py \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-sise 4 --global-batch-size 32 --seq-length 1024 \
       --tensor_model_parallel_size 2 --curriculum-of-words words.txt \
       --weight-sharing-of-ties --mock-data --bf16
