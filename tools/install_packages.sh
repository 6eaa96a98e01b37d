#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs those Debian packages that are missing, as root or through sudo.
# Does nothing where all are there.
#
# usage: tools/install_packages.sh PACKAGE…
set -euo pipefail

missing=()
for package in "$@"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ "$state" == ii* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

echo "setup: installing ${missing[*]}"
sudo=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "setup: these Debian packages are missing and neither root nor" \
      "sudo is at hand: ${missing[*]}" >&2
    exit 2
  }
  sudo=(sudo)
fi
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
