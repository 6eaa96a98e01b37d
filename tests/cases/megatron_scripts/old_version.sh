#!/bin/bash
# For a Megatron-LM of 2022: its own arguments are notes, not errors.
# notes: removed-key DDP-impl
# notes: removed-key data-impl
# notes: ignored-key use-flash-attn
# notes: removed-key checkpoint-activations
python -m torch.distributed.launch --nproc_per_node 8 pretrain_gpt.py \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-size 4 --global-batch-size 32 --seq-length 1024 \
       --max-position-embeddings 1024 --train-iters 500000 \
       --lr-decay-iters 320000 --data-path $DATA --vocab-file gpt2-vocab.json \
       --merge-file gpt2-merges.txt --data-impl mmap --split 949,50,1 \
       --distributed-backend nccl --lr 0.00015 --lr-decay-style cosine \
       --min-lr 1.0e-5 --weight-decay 1e-2 --clip-grad 1.0 \
       --lr-warmup-fraction .01 --log-interval 100 --use-flash-attn \
       --DDP-impl local --checkpoint-activations --fp16
