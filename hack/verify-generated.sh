#!/usr/bin/env bash
# verify-generated.sh: fails when `make generate` or `go mod tidy` would change something.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git ls-files -z -co --exclude-standard | tar --null -T - -cf - | tar -xf - -C "$tmp"
(cd "$tmp" && make -s generate)
for f in config/crd/bases config/rbac pkg/apis README.md; do
  diff -r "$f" "$tmp/$f" || { echo "$f is not current: run make generate" >&2; exit 1; }
done
go mod tidy -diff || { echo "go.mod is not tidy: run go mod tidy" >&2; exit 1; }
echo "generated files are current"
