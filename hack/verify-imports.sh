#!/usr/bin/env bash
# The operator's binary must not link OpenShift's machine controllers: they serve tests and demos only (test/machineapi).
#
#   hack/verify-imports.sh [PACKAGE...]     default: the root package
set -euo pipefail
cd "$(dirname "$0")/.."

unwanted=github.com/openshift/machine-api-operator
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(.)

deps=$(go list -deps "${packages[@]}")
if found=$(grep -E "^${unwanted}(/|\$)" <<<"$deps"); then
	printf '%s: links packages of %s:\n%s\n' "${packages[*]}" "$unwanted" "$found" >&2
	exit 1
fi
