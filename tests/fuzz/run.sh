#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for a while, from the tests' own inputs.
#
# usage: tests/fuzz/run.sh BUILD [SECONDS]
set -euo pipefail
build=$1
seconds=${2:-60}
here=$(cd "$(dirname "$0")/.." && pwd)
for target in "$build"/tests/fuzz/fuzz_*; do
  [[ -x "$target" && -f "$target" ]] || continue
  system=${target##*fuzz_}
  seeds=("$here/foreign/$system/cases" "$here/cases/$system"
         "$here/cases/${system}_scripts")
  existing=()
  for seed in "${seeds[@]}"; do
    [[ -d "$seed" ]] && existing+=("$seed")
  done
  corpus="$build/corpus_$system"
  mkdir -p "$corpus"
  echo "fuzz: $system for $seconds s"
  log="$build/fuzz_$system.log"
  code=0
  "$target" -max_total_time="$seconds" -max_len=8192 -timeout=5 \
    -rss_limit_mb=1024 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$build/crash_$system-" "$corpus" "${existing[@]}" \
    >"$log" 2>&1 || code=$?
  grep -E 'executed_units|ERROR|SUMMARY' "$log" || true
  if ((code != 0)); then
    echo "fuzz: $system failed with exit code $code: $log" >&2
    exit 1
  fi
  if compgen -G "$build/crash_$system-*" >/dev/null; then
    echo "fuzz: $system failed: $(ls "$build"/crash_"$system"-*)" >&2
    exit 1
  fi
done
