#!/bin/bash
# The size is chosen by a case over a known word, extras by tests.
# world: 16
set -euo pipefail
MODEL_SIZE=7B
FP8=false
if [ "$MODEL_SIZE" = "70B" ]; then
  HIDDEN=8192; LAYERS=80; HEADS=64; KV=8
elif [ "$MODEL_SIZE" = "7B" ]; then
  HIDDEN=4096; LAYERS=32; HEADS=32; KV=8
else
  echo "no such size"; exit 1
fi
case $MODEL_SIZE in
  7B|8B) TP=2; PP=1 ;;
  *) TP=8; PP=4 ;;
esac
SP_ARGS=""
if [ $TP -gt 1 ]; then
  SP_ARGS="--sequence-parallel"
fi
EXTRA=()
if [[ $FP8 == true ]]; then
  EXTRA+=(--fp8-format hybrid)
fi
if [[ -n "${USE_DIST_OPT:-1}" ]]; then
  EXTRA+=(--use-distributed-optimizer --overlap-grad-reduce)
fi
run() {
  CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc-per-node=8 --nnodes=2 "$@"
}
run pretrain_gpt.py --num-layers $LAYERS --hidden-size $HIDDEN \
  --num-attention-heads $HEADS --group-query-attention --num-query-groups $KV \
  --seq-length 8192 --max-position-embeddings 8192 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $SP_ARGS \
  --micro-batch-size 1 --global-batch-size 128 --train-iters 100 --lr 1e-4 \
  --position-embedding-type rope --mock-data --bf16 \
  --tokenizer-type NullTokenizer --vocab-size 32000 \
  "${EXTRA[@]}"
