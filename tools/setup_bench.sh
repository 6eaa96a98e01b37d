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
# DeepSpeed, and what its setup.py wants beside it; the ops that it can build
# are left out: the benches' optimizer is torch's own.
deepspeed=deepspeed==0.19.8
deepspeed_tools=(wheel ninja packaging psutil py-cpuinfo)
all="${packages[*]} $deepspeed"

if ! compgen -G '.venv/lib/python3*/site-packages/torch' >/dev/null; then
  echo "setup_bench: .venv has no torch; run tools/setup.sh first" >&2
  exit 2
fi
ready=.venv-bench/.ready
if [[ -f $ready && "$(cat $ready)" == "$all" ]]; then
  exit 0
fi
echo "setup_bench: installing $all into .venv-bench"
[[ -x .venv-bench/bin/python ]] || .venv/bin/python -m venv .venv-bench
for site in .venv-bench/lib/python3*/site-packages; do
  realpath .venv/lib/python3*/site-packages >"$site/triax-torch.pth"
done
install() {
  .venv-bench/bin/python -m pip install -q --disable-pip-version-check "$@"
}
install "${packages[@]}" "${deepspeed_tools[@]}"
DS_BUILD_OPS=0 DS_ACCELERATOR=cpu install --no-build-isolation "$deepspeed"
.venv-bench/bin/python -c 'import torch, transformers, deepspeed'
echo "$all" >$ready
