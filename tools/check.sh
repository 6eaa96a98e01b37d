#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks that need no build: format, layers, words.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v clang-format-14 >/dev/null; then
  git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run --Werror
else
  echo "check: clang-format-14 is not installed; the format was not checked"
fi
python3 tools/check_layers.py
