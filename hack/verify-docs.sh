#!/usr/bin/env bash
# verify-docs.sh: fails when a document disagrees with the tree: an excerpt with its golden file, a link, a package without a doc.go or
# without a place in docs/architecture.md, a row of docs/failures.md with a test.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./hack/verifydocs
go run ./hack/verifyfailures
