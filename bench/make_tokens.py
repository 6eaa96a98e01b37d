#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes random tokens as a Megatron data set: PREFIX.bin and PREFIX.idx.

usage: make_tokens.py PREFIX [--tokens N] [--vocab V] [--document LENGTH]
Tokens are u16, equally likely below V, the same for the same arguments.
"""
import argparse
import array
import os
import random
import struct
import sys

TOKEN_TYPE_U16 = 8  # megatron/core/datasets/indexed_dataset.py, DType


def write_index(path, lengths):
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + 2 * length)
    sequences = len(lengths)
    with open(path, "wb") as file:
        file.write(b"MMIDIDX\0\0")
        file.write(struct.pack("<QB", 1, TOKEN_TYPE_U16))
        file.write(struct.pack("<QQ", sequences, sequences + 1))
        file.write(struct.pack(f"<{sequences}i", *lengths))
        file.write(struct.pack(f"<{sequences}q", *starts[:-1]))
        file.write(struct.pack(f"<{sequences + 1}q", *range(sequences + 1)))


def write_tokens(prefix, num_tokens=1 << 18, vocab_size=8192,
                 document_length=4096):
    tokens = array.array(
        "H", random.Random(1).choices(range(vocab_size), k=num_tokens))
    if sys.byteorder == "big":
        tokens.byteswap()
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    with open(prefix + ".bin", "wb") as file:
        tokens.tofile(file)
    lengths = [min(document_length, num_tokens - start)
               for start in range(0, num_tokens, document_length)]
    write_index(prefix + ".idx", lengths)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("--tokens", type=int, default=1 << 18)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--document", type=int, default=4096)
    options = parser.parse_args()
    if not 1 <= options.vocab <= 1 << 16:
        parser.error("--vocab: u16 holds 1 to 65536 different tokens")
    if options.tokens < 1 or options.document < 1:
        parser.error("--tokens and --document: at least 1")
    write_tokens(options.prefix, options.tokens, options.vocab,
                 options.document)


if __name__ == "__main__":
    main()
