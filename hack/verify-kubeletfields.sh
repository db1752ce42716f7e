#!/usr/bin/env bash
# verify-kubeletfields.sh: fails when pkg/kubelet/fields_gen.go is not what hack/kubeletfields makes of the published API types. The modules that it
# reads are small and stay in the module cache.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./hack/kubeletfields | diff - pkg/kubelet/fields_gen.go || {
  echo "pkg/kubelet/fields_gen.go is not current: go run ./hack/kubeletfields > pkg/kubelet/fields_gen.go" >&2
  exit 1
}
echo "the kubelet's fields are current"
