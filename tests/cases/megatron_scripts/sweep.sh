#!/bin/bash
# A loop over learning rates: the rate is not known, the rest is.
# finds: error batch-triangle global-batch-size
for LR in 1e-4 3e-4 1e-3; do
  torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 \
    --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
    --max-position-embeddings 1024 --micro-batch-size 3 \
    --global-batch-size 64 --train-iters 100 --lr $LR --fp16 --mock-data \
    --tokenizer-type NullTokenizer --vocab-size 32000
done
