#!/bin/bash
# A fork's own arguments, some of which resemble Megatron-LM's: no slips.
# notes: unknown-key no-attention-softmax-in-fp32
# notes: unknown-key rope-scheme
# notes: unknown-key max-absolute-position-embeddings
torchrun --nproc_per_node 8 pretrain_gpt.py \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-size 4 --global-batch-size 32 --seq-length 1024 \
       --max-absolute-position-embeddings 1024 --train-iters 500000 \
       --lr 0.00015 --min-lr 1.0e-5 --mock-data --vocab-size 32000 \
       --tokenizer-type NullTokenizer --no-attention-softmax-in-fp32 \
       --rope-scheme llama --weight-sharing-of-ties --bf16 \
       --optimizer-offload-policy static --optimizer-offload-fraction 0.5
