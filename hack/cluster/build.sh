#!/usr/bin/env bash
# build.sh: builds bin/cluster at the top of the repository, and bin/kubectl, which is the same file, when they are missing or
# older than their sources. Instant when there is nothing to do, seconds after a change; the first build compiles all of
# Kubernetes, which takes minutes.
#
# build.sh node: builds bin/node-images too, the images that "cluster up --node" brings to its node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

what=${1:-cluster}
case $what in cluster | node) ;; *) echo "usage: build.sh [node]" >&2 && exit 2 ;; esac
bin=$(cd ../.. && pwd)/bin
binary=$bin/cluster

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

# is_current: the binary is newer than everything that it is built from. A removed file shows in its folder.
is_current() {
  [ -x "$binary" ] || return 1
  [ -z "$(find . \( -name e2e -o -name testdata -o -path ./coredns -o -path ./pause \) -prune -o \( -name '*.go' ! -name '*_test.go' \
    -o -path './*/config/*' -o -path './*/manifests/*' -o -name go.mod -o -name go.sum -o -name build.sh -o -type d \) -newer "$binary" -print -quit)" ]
}

# build_image NAME DIRECTORY: builds the program in a directory, and packs it as an image when that is missing or older.
build_image() {
  local archive=$bin/node-images/$1.tar
  if [ -e "$archive" ] && [ -z "$(find "$2" build.sh images -newer "$archive" -print -quit)" ]; then
    return
  fi
  echo "build.sh: building bin/node-images/$1.tar"
  local work
  work=$(mktemp -d "$bin/.build.XXXXXX")
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf '$work'" EXIT
  touch "$work/begin"
  # The image is for the node, which is of this machine's architecture, whatever is being built for elsewhere.
  (cd "$2" && CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w" -o "$work/$1" .) || fail "building $1 failed"
  "$binary" image pack --name "millwright.dev/cluster/$1:1" "$work/$1" "$work/$1.tar"
  touch -r "$work/begin" "$work/$1.tar"
  mkdir -p "$bin/node-images"
  mv -f "$work/$1.tar" "$archive"
  rm -rf "$work"
}

finish() {
  ln -sfn cluster "$bin/kubectl"
  if [ "$what" = node ]; then
    build_image pause pause
    build_image coredns coredns
  fi
}

check_go() {
  command -v go >/dev/null || fail "go is missing. Install Go $wanted_go or newer: https://go.dev/dl"
  local have
  # Asked here, inside the module: this go may fetch the toolchain that go.mod wants, unless GOTOOLCHAIN forbids it.
  have=$(go env GOVERSION 2>/dev/null) || have=$(cd / && go env GOVERSION)
  have=${have#go}
  [ "$(printf '%s\n' "$wanted_go" "$have" | sort -V | head -n 1)" = "$wanted_go" ] ||
    fail "go is version $have. Install Go $wanted_go or newer: https://go.dev/dl"
}

# report SECONDS LOG PACKAGES: every SECONDS seconds one line on how far the build is whose output goes to LOG.
report() {
  local begin=$SECONDS
  while sleep "$1"; do
    echo "build.sh: $(grep -c '^[^ #]*$' "$2") of $3 packages compiled after $((SECONDS - begin)) s"
  done
}

if is_current; then
  finish
  exit 0
fi

wanted_go=$(awk '$1 == "go" { print $2 }' go.mod)
kubernetes=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2 }' go.mod)
minor=${kubernetes#v1.}
minor=${minor%%.*}
check_go

# No C compiler is needed, and nothing in the binary depends on where it was built.
export CGO_ENABLED=0
flags=(-trimpath -ldflags "-s -w \
  -X k8s.io/component-base/version.gitVersion=$kubernetes \
  -X k8s.io/component-base/version.gitMajor=1 \
  -X k8s.io/component-base/version.gitMinor=$minor \
  -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes")

mkdir -p "$bin"
work=$(mktemp -d "$bin/.build.XXXXXX")
reporter=
trap '[ -z "$reporter" ] || kill "$reporter" 2>/dev/null || true; rm -rf "$work"' EXIT

# Only a first build, or one with other versions, is long enough to be worth counting, which takes seconds too.
if [ ! -x "$binary" ] || [ go.mod -nt "$binary" ]; then
  go mod download
  packages=$(go list "${flags[@]}" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' . | wc -l)
  if [ "$packages" -gt 100 ]; then
    echo "build.sh: compiling Kubernetes $kubernetes, $packages packages: 5 to 15 minutes on 2 cores, once"
    interval=20
    [ ! -t 1 ] || interval=5
    : >"$work/log"
    report "$interval" "$work/log" "$packages" &
    reporter=$!
  fi
fi

# What is edited while the build runs is newer than this, and so than the binary.
touch "$work/begin"
if ! go build -v "${flags[@]}" -o "$work/cluster" . 2>"$work/log"; then
  # Names of compiled packages are one word; everything else is a message.
  grep -v '^[^ #]*$' "$work/log" >&2 || true
  fail "go build failed"
fi
touch -r "$work/begin" "$work/cluster"
mv -f "$work/cluster" "$binary"
rm -rf "$work"
echo "build.sh: built bin/cluster, Kubernetes $kubernetes"
finish
