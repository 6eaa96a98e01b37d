#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only the benches need: Open MPI, the peer of bench/plain (CMake builds
# collectives_mpi where it finds it, so run this before CMake), and .venv-bench,
# what bench/peers needs beside the LibTorch wheel of .venv, which it sees
# through a .pth file. Does nothing where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_packages.sh openmpi-bin libopenmpi-dev

packages=(transformers==5.23.0 numpy)

if ! compgen -G '.venv/lib/python3*/site-packages/torch' >/dev/null; then
  echo "setup_bench: .venv has no torch; run tools/setup.sh first" >&2
  exit 2
fi
ready=.venv-bench/.ready
if [[ -f $ready && "$(cat $ready)" == "${packages[*]}" ]]; then
  exit 0
fi
echo "setup_bench: installing ${packages[*]} into .venv-bench"
[[ -x .venv-bench/bin/python ]] || .venv/bin/python -m venv .venv-bench
for site in .venv-bench/lib/python3*/site-packages; do
  realpath .venv/lib/python3*/site-packages >"$site/triax-torch.pth"
done
.venv-bench/bin/python -m pip install -q --disable-pip-version-check \
  "${packages[@]}"
.venv-bench/bin/python -c 'import torch, transformers'
echo "${packages[*]}" >$ready
