#!/bin/bash
# Megatron-DeepSpeed, whose arguments and checks are others; run by eval.
# world: 8
SEQ_LEN=2048
GLOBAL_BATCH_SIZE=256
BATCH_SIZE=4
TRAIN_TOKENS=300000000000
TRAIN_ITERS=$(( ${TRAIN_TOKENS} * 3 / ${GLOBAL_BATCH_SIZE} / ${SEQ_LEN} ))
ACTIVATION_CHECKPOINT="true"
CONFIG=ds_config.json
cat <<EOT > $CONFIG
{
  "train_batch_size" : $GLOBAL_BATCH_SIZE,
  "zero_optimization": {"stage": 1}
}
EOT
megatron_options=" \
        --tensor-model-parallel-size 1 \
        --moe-expert-parallel-size 8 \
        --num-experts 8 \
        --micro-batch-size ${BATCH_SIZE} \
        --global-batch-size ${GLOBAL_BATCH_SIZE} \
        --num-layers 24 \
        --hidden-size 1024 \
        --num-attention-heads 16 \
        --seq-length ${SEQ_LEN} \
        --max-position-embeddings ${SEQ_LEN} \
        --train-tokens ${TRAIN_TOKENS} \
        --train-iters ${TRAIN_ITERS} \
        --lr 3e-4 --fp16 \
        --no-pipeline-parallel \
"

        # --save-interval 1000 \
        # --save out

if [ "${ACTIVATION_CHECKPOINT}" = "true" ]; then
megatron_options="${megatron_options} \
        --checkpoint-activations \
        --deepspeed-activation-checkpointing"
fi
if [ "${DROP}" = "false" ]; then
megatron_options="${megatron_options} \
        --disable-moe-token-dropping"
fi
deepspeed_options=" \
        --deepspeed \
        --deepspeed_config ${CONFIG} \
        --zero-stage 1"
run_cmd="deepspeed --num_nodes 1 --num_gpus 8 ${DIR}/pretrain_gpt.py ${megatron_options} ${deepspeed_options} &> log.txt"
echo ${run_cmd}
eval ${run_cmd}
