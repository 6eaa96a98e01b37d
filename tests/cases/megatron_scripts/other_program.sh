#!/bin/bash
# Another program on Megatron-LM's parser: what its own arguments take is its
# own matter, and their names may be the beginning of Megatron-LM's.
# notes: unknown-key train-data
# notes: unknown-key held-out-files
torchrun --nproc_per_node 8 judge_pairs.py --train-data pairs.tsv \
       --held-out-files one.tsv two.tsv three.tsv \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-size 8 --lr 5.0e-5 --seq-length 512 \
       --max-position-embeddings 512 --fp16
