#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the King James Bible as plain text, one verse a line, to OUT:
# the training text of the examples. From Debian's bible-kjv, no network.
set -eu

if [ $# -ne 1 ]; then
  echo "usage: tools/fetch_kjv.sh OUT" >&2
  exit 2
fi
out=$1
expected=4137850

if ! command -v bible >/dev/null 2>&1; then
  echo "fetch_kjv.sh: the program bible is missing;" \
    "install it with: apt-get install bible-kjv" >&2
  exit 1
fi

mkdir -p "$(dirname "$out")"
part=$(mktemp "$out.XXXXXX")
trap 'rm -f "$part"' EXIT
bible -f 'Gen1:1-Rev22:21' | sed -E 's/^[^[:space:]]+ //' >"$part"
size=$(wc -c <"$part")
if [ "$size" -ne "$expected" ]; then
  echo "fetch_kjv.sh: the text has $size bytes, not $expected;" \
    "this is not the bible-kjv that the examples were made with" >&2
  exit 1
fi
chmod 644 "$part"
mv "$part" "$out"
