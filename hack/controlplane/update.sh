#!/usr/bin/env bash
# Moves the test control plane to other versions, and the payload's Kubernetes with it, for example:
#
#   hack/controlplane/update.sh v1.37.2 v3.7.3
#
# k8s.io/kubernetes replaces its own libraries by folders of its repository, which other modules do not see: each of them is
# replaced here by the published version that belongs to it.
set -euo pipefail
cd "$(dirname "$0")"

kubernetes=$1 etcd=$2
libraries=v0.${kubernetes#v1.}
source=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')

# pin writes the version and the replace lines into the go.mod of the current folder.
pin() {
	go mod edit -require="k8s.io/kubernetes@$kubernetes"
	sed -i '/^replace (/,/^)/d' go.mod
	{
		echo "replace ("
		sed -n "s#^\t\(k8s\.io/[a-z-]*\) => \./staging.*#\t\1 => \1 $libraries#p" "$source"
		echo ")"
	} >>go.mod
}

go mod edit -require="go.etcd.io/etcd/server/v3@$etcd"
pin
go mod tidy
cd ../payload/modules/kubernetes
pin
GOOS=windows go mod tidy
