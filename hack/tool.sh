#!/usr/bin/env bash
# tool.sh MODULE NAME PACKAGE: prints the path of a tool, building it first when this version of it is not cached. MODULE is a folder below
# hack with a go.mod of its own, so that tools never change the product's dependencies.
set -euo pipefail
cd "$(dirname "$0")/$1"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/windowsmachine/tools
key=$(cat go.mod go.sum <(go env GOVERSION GOOS GOARCH) | sha256sum | cut -c1-16)
bin=$cache/$key/$2
if [ ! -x "$bin" ]; then
  echo "building $2 (once; a minute or two) ..." >&2
  start=$SECONDS
  mkdir -p "$cache/$key"
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$bin.$$" "$3"
  mv "$bin.$$" "$bin"
  echo "built $2 in $((SECONDS - start)) s" >&2
fi
echo "$bin"
