#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the project for TIME (for example 10s), one after the other, and fails at the end when one failed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: hack/fuzz.sh TIME" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()

# fuzz TARGET PACKAGE. A worker that is still at an input when the time is up can make go test fail with the deadline as the only
# reason (golang/go#75804, fixed in Go 1.27); an input that fails is always written to testdata.
fuzz() {
  go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" -timeout 0 "./$2" 2>&1 | tee "$log" && return
  if grep -q 'context deadline exceeded' "$log" && ! grep -qE 'Failing input written|panic:|build failed' "$log"; then
    echo "(the time was up; no input failed)"
    return
  fi
  failed+=("$1 ($2)")
}

time=$1
mapfile -t targets < <(grep -roE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' cmd controllers pkg | sort)
for t in "${targets[@]}"; do
  file=${t%%:*} name=${t##*func }
  echo "== $name ($(dirname "$file"))"
  fuzz "$name" "$(dirname "$file")"
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "${#targets[@]} targets, none failed"
