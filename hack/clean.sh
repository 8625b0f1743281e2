#!/usr/bin/env bash
# clean.sh: removes what was built, and the state of the local cluster.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -x bin/cluster ] && bin/cluster wait --dir .local/cluster --timeout 1ms >/dev/null 2>&1; then
  echo "The local cluster is running: stop make run or make cluster first (Ctrl-C)." >&2
  exit 1
fi
rm -rf bin .local
