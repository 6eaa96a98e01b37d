#!/bin/bash
# A template: words in angle brackets are still to be replaced.
OUT=${OUT:-<put your folder here>}
torchrun --nproc_per_node 8 pretrain_gpt.py \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-size 4 --global-batch-size 32 --seq-length 1024 \
       --max-position-embeddings 1024 --train-iters 500000 --lr 0.00015 \
       --mock-data --vocab-size 32000 --tokenizer-type NullTokenizer --bf16 \
       --save $OUT --save-interval 500 --load $OUT --seed 3
