#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the project for TIME (for example 10s), one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' pkg cmd controllers | while read -r file; do
  for target in $(grep -oE '^func Fuzz[A-Za-z0-9]+' "$file" | awk '{print $2}'); do
    echo "== $target ($(dirname "$file"))"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "./$(dirname "$file")"
  done
done
