#!/usr/bin/env bash
# build.sh: builds bin/cluster at the top of the repository, and bin/kubectl, which is the same file, when they are missing or
# older than their sources. Instant when there is nothing to do, seconds after a change; the first build compiles Kubernetes, which takes
# minutes.
#
# build.sh node: builds what "cluster up --node" needs too: bin/cluster-node, the same program with kubelet and kube-proxy, and
# bin/node-images, the images that it brings to its node.
#
# BUILD_INTERVAL=SECONDS sets how often a first build prints how far it is: every 5 seconds on a terminal, else every 20 seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../progress.sh

what=${1:-cluster}
case $what in cluster | node) ;; *) echo "usage: build.sh [node]" >&2 && exit 2 ;; esac
bin=$(cd ../.. && pwd)/bin

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

# What has to be removed and ended when the script ends, early or not.
work=
clean() {
  stop_reporter
  [ -z "$work" ] || rm -rf "$work"
}
trap clean EXIT

# is_current BINARY: the binary is newer than everything that it is built from. A removed file shows in its folder.
is_current() {
  [ -x "$1" ] || return 1
  [ -z "$(find . ../go-env.sh \( -name e2e -o -name testdata -o -path ./coredns -o -path ./pause \) -prune -o \( -name '*.go' ! -name '*_test.go' \
    -o -path './*/config/*' -o -path './*/manifests/*' -o -name go.mod -o -name go.sum -o -name build.sh -o -name go-env.sh -o -type d \) -newer "$1" -print -quit)" ]
}

# build_image NAME DIRECTORY: builds the program in a directory, and packs it as an image when that is missing or older.
build_image() {
  local archive=$bin/node-images/$1.tar
  if [ -e "$archive" ] && [ -z "$(find "$2" build.sh ../go-env.sh images -newer "$archive" -print -quit)" ]; then
    return
  fi
  echo "build.sh: building bin/node-images/$1.tar"
  work=$(mktemp -d "$bin/.build.XXXXXX")
  touch "$work/begin"
  # The image is for the node, which is of this machine's architecture, whatever is being built for elsewhere.
  (cd "$2" && GOOS=linux go build -ldflags "-s -w" -o "$work/$1" .) || fail "building $1 failed"
  "$bin/cluster-node" image pack --name "millwright.dev/cluster/$1:1" "$work/$1" "$work/$1.tar"
  touch -r "$work/begin" "$work/$1.tar"
  mkdir -p "$bin/node-images"
  mv -f "$work/$1.tar" "$archive"
  rm -rf "$work"
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

# explain NAME PACKAGES: what a first build does, why, and where it leaves what.
explain() {
  local why="one program that needs no installation" parts="etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl"
  [ "$1" = cluster ] || why="the program of a real node" parts="the same, kubelet and kube-proxy"
  cat <<END
build.sh: compiling $2 packages of Kubernetes $kubernetes into bin/$1, $why:
  $parts. This takes minutes, once; later builds take seconds.
  Go keeps the packages outside this folder, up to 5 GiB: $(go env GOCACHE), $(go env GOMODCACHE).
  To remove them, with those of other projects: go clean -cache -modcache
END
}

# build NAME FLAG...: builds bin/NAME with the flags, if it is not current.
build() {
  local binary=$bin/$1
  ! is_current "$binary" || return 0
  check_go
  mkdir -p "$bin"
  work=$(mktemp -d "$bin/.build.XXXXXX")
  : >"$work/log"

  # Only a first build, or one with other versions, is long enough to be worth counting, which takes seconds too.
  if [ ! -x "$binary" ] || [ go.mod -nt "$binary" ] || [ ../go-env.sh -nt "$binary" ]; then
    go mod download
    stale "${@:2}" . >"$work/costs"
    local packages interval=20
    packages=$(wc -l <"$work/costs")
    if [ "$packages" -gt 100 ]; then
      explain "$1" $((packages))
      [ ! -t 1 ] || interval=5
      start_reporter build.sh "${BUILD_INTERVAL:-$interval}" "$work/costs" "$work/log"
    fi
  fi

  # What is edited while the build runs is newer than this, and so than the binary.
  touch "$work/begin"
  if ! env ${build_env[@]+"${build_env[@]}"} go build -v "${@:2}" -o "$work/$1" . 2>"$work/log"; then
    stop_reporter
    # Names of compiled packages are one word; everything else is a message.
    grep -v '^[^ #]*$' "$work/log" >&2 || true
    fail "go build failed"
  fi
  touch -r "$work/begin" "$work/$1"
  mv -f "$work/$1" "$binary"
  clean
  work=
  echo "build.sh: built bin/$1, Kubernetes $kubernetes"
}

wanted_go=$(awk '$1 == "go" { print $2 }' go.mod)
kubernetes=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2 }' go.mod)
minor=${kubernetes#v1.}
minor=${minor%%.*}

# No C compiler is needed, and nothing in the binary depends on where it was built.
source ../go-env.sh
read -ra build_env <<<"$(../build-env.sh)"
flags=(-ldflags "-s -w \
  -X k8s.io/component-base/version.gitVersion=$kubernetes \
  -X k8s.io/component-base/version.gitMajor=1 \
  -X k8s.io/component-base/version.gitMinor=$minor \
  -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes")

build cluster "${flags[@]}"
ln -sfn cluster "$bin/kubectl"
if [ "$what" = node ]; then
  build cluster-node -tags node "${flags[@]}"
  build_image pause pause
  build_image coredns coredns
fi
