#!/usr/bin/env bash
# The acceptance test of a GPU: the cases of `optrush check` that fit into eight minutes, the most telling ones first.
set -euo pipefail
bin=$OPTRUSH_BUILD_DIR/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! "$bin/optrush-worker" check-list --device cuda --out "$out/list.json" 2> "$out/errors"; then
  cat "$out/errors"
  if grep -q 'no GPU can be used' "$out/errors"; then exit 77; fi
  exit 1
fi
"$bin/optrush" check --device cuda --for 8m --folder "$out"
