#!/usr/bin/env bash
# require.sh WHAT...: reports what is missing on this machine, and how to install it, before something fails with a less clear message.
#   go     the version of Go that go.mod asks for
#   race   a C compiler, for go test -race
#   node   what a real node needs: missing packages are installed. It exits with code 3 if this machine cannot have one
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "$1" >&2
  exit 1
}

require_go() {
  local wanted have
  wanted=$(awk '$1 == "go" { print $2 }' go.mod)
  command -v go >/dev/null || fail "Go is missing. Install Go $wanted or newer: https://go.dev/dl"
  # Asked in this folder, a go that may fetch the toolchain of go.mod reports the version of that toolchain.
  have=$(go env GOVERSION 2>/dev/null) || have=$(cd / && go env GOVERSION)
  have=${have#go}
  [ "$(printf '%s\n' "$wanted" "${have%% *}" | sort -V | head -n 1)" = "$wanted" ] ||
    fail "Go $wanted or newer is needed, but $(command -v go) is $have. Install it: https://go.dev/dl"
}

require_race() {
  local cc
  cc=$(go env CC)
  command -v "${cc%% *}" >/dev/null ||
    fail "The race detector needs a C compiler, but $cc was not found. On Debian and Ubuntu: apt-get install gcc libc6-dev"
  echo '#include <stdlib.h>' | $cc -E - >/dev/null 2>&1 ||
    fail "The race detector needs the headers of the C library, but $cc does not find stdlib.h. On Debian and Ubuntu: apt-get install libc6-dev"
}

require_node() {
  bin/cluster node prepare || {
    echo "The end-to-end tests need a real node, which this machine cannot have, see above." >&2
    exit 3
  }
}

for what in "$@"; do
  "require_$what"
done
