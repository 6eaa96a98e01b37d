#!/bin/bash
# No training run: arguments of another parser are not looked at.
python tools/preprocess_data.py --input corpus.json --output-prefix my-gpt2 \
  --vocab-file gpt2-vocab.json --dataset-impl mmap --seq-length 1024 \
  --tokenizer-type GPT2BPETokenizer --merge-file gpt2-merges.txt --append-eod
