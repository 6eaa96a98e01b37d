#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# world: 32
export CUDA_DEVICE_MAX_CONNECTIONS=1
options=" \
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 --sequence-parallel \
    --micro-batch-size 2 --global-batch-size 64 \
    --train-iters 1000 --lr 2e-4 --bf16 --mock-data --use-distributed-optimizer \
    --tokenizer-type NullTokenizer --vocab-size 32000"
run_cmd="python -u pretrain_gpt.py ${options}"
srun -l --container-image "image:latest" --output=out.log sh -c "${run_cmd}"
