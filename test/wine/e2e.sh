#!/usr/bin/env bash
# Builds the tests of machines of Wine and runs them in namespaces of their own: a network, so that their switch collides with nothing, mounts, and
# processes, so that everything ends with this script. Arguments go to both test programs, for example -test.run TestLine.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
  echo "e2e: machines of Wine need namespaces and mounts: run it as root" >&2
  exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for p in wine wine/e2e; do
  go test -c -tags wine -o "$dir/${p//\//-}.test" "./test/$p"
done
apart() {
  # shellcheck disable=SC2016 # the inner shell expands $@
  unshare --net --mount --pid --fork --kill-child --mount-proc sh -c 'ip link set lo up; exec "$@"' sh "$@"
}
(cd test/wine && apart "$dir/wine.test" -test.v "$@")
(cd test/wine/e2e && apart "$dir/wine-e2e.test" -test.v "$@")
