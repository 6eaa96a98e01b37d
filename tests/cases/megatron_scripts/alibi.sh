#!/bin/bash
# ALiBi and DeepSpeed's own pipeline, of a fork, under Slurm.
# notes: not-judged tokenizer-type
# notes: not-judged position-embedding-type
#SBATCH --nodes=48
source $HOME/start-training
GPUS_PER_NODE=8
PP=12
TP=4
SEQ_LEN=2048

OPTIMIZER_ARGS=" \
    --optimizer adam --adam-beta1 0.9 --adam-beta2 0.95 \
    --lr 6e-5 --min-lr 6e-6 --lr-decay-style cosine \
    --lr-decay-samples 200_000_000 --lr-warmup-samples 183_105 \
    --clip-grad 1.0 --weight-decay 1e-1 \
    "

GPT_ARGS=" \
    --pp-partition-method 'type:transformer|embedding' \
    --num-layers 70 --hidden-size 14336 --num-attention-heads 112 \
    --seq-length $SEQ_LEN --max-position-embeddings $SEQ_LEN \
    --micro-batch-size 2 --global-batch-size 2048 \
    --rampup-batch-size 192 16 9_765_625 \
    --train-samples 220_000_000 \
    --tokenizer-type PretrainedFromHF \
    --tokenizer-name-or-path $TOKENIZER \
    --embed-layernorm --sync-tp-duplicated-parameters \
    --position-embedding-type alibi \
    --checkpoint-activations --bf16 \
    --abort-on-unmet-fused-kernel-constraints \
    --pad-vocab-size-to 250880 \
    $OPTIMIZER_ARGS \
    "

LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $SLURM_NNODES \
    --rdzv_endpoint $MASTER_ADDR:6000 \
    "
CMD="pretrain_gpt.py \
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size $PP \
    $GPT_ARGS \
    --deepspeed --deepspeed_config config.json --zero-stage 0 \
    "
srun bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee -a log.txt
