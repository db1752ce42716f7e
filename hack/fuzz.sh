#!/usr/bin/env bash
# fuzz.sh TIME [PACKAGE/TARGET...]: runs fuzz targets for TIME each (for example 10s), one after the other, all of the project when none is
# named (pkg/plan/FuzzParse). It fails at the end when one failed, and prints the inputs that did it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: hack/fuzz.sh TIME [PACKAGE/TARGET...]" >&2; exit 2; }
time=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=() inputs=()

# all prints every target of the project as PACKAGE/TARGET.
all() { grep -roE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' cmd controllers pkg | sed -E 's#/[^/]*:func #/#' | sort; }

# fuzz PACKAGE TARGET. A worker that is still at an input when the time is up can make go test fail with the deadline as the only
# reason (golang/go#75804, fixed in Go 1.27); an input that fails is always written to testdata, or is a seed or there already.
fuzz() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel 2 -timeout 0 "./$1" 2>&1 | tee "$log" && return
  if grep -q 'context deadline exceeded' "$log" && ! grep -qE 'Failing input written|failure while testing seed|panic:|build failed' "$log"; then
    echo "(the time was up; no input failed)"
    return
  fi
  failed+=("$1/$2")
  local input
  while read -r input; do inputs+=("$1/$input"); done < <(grep -oE "testdata/fuzz/$2/[0-9a-f]+" "$log" | sort -u)
}

if [ $# -eq 0 ]; then
  mapfile -t targets < <(all)
else
  targets=("$@")
fi
known=$(all)
for t in "${targets[@]}"; do
  grep -qxF "$t" <<<"$known" || { echo "there is no fuzz target $t" >&2; exit 2; }
done
for t in "${targets[@]}"; do
  echo "== $t"
  fuzz "${t%/*}" "${t##*/}"
done
for i in ${inputs[@]+"${inputs[@]}"}; do
  printf 'failing input %s:\n' "$i" >&2
  head -c 2000 "$i" >&2
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "${#targets[@]} targets, none failed"
