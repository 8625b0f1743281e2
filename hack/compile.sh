#!/usr/bin/env bash
# compile.sh [WHAT...]: compiles packages and their tests with all processors, and links nothing. Without arguments it compiles everything that
# .ci/run needs. It comes first: a test that looks at a clock fails next to a compiler.
#   plain      this module, for programs, checks, and tests without the race detector
#   cluster    hack/cluster
#   node       hack/cluster with its real node
#   chart      hack/chart, which is built from Helm
#   race       this module, with the race detector
#   race-unit  of this module the unit tests, with the race detector
# What takes long is explained, and every 20 seconds a line shows how far it is.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh
source hack/progress.sh

read -ra build_env <<<"$(hack/build-env.sh)"
work=$(mktemp -d)
compiler=
trap 'stop_reporter; [ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true; rm -rf "$work"' EXIT

# compile NAME DIRECTORY ARG...: compiles packages of the module in the directory. ARG are flags and packages for go list.
compile() {
  local name=$1 directory=$2 status=0 begin=$SECONDS packages
  shift 2
  : >"$work/log"
  (cd "$directory" && exec env ${build_env[@]+"${build_env[@]}"} go list -export -deps -test -v "$@") >/dev/null 2>"$work/log" &
  compiler=$!
  # With warm caches it ends before it is worth counting.
  while kill -0 "$compiler" 2>/dev/null && [ $((SECONDS - begin)) -lt 10 ]; do sleep 0.1; done
  if kill -0 "$compiler" 2>/dev/null; then
    (cd "$directory" && stale -test "$@") >"$work/costs" || true
    packages=$(wc -l <"$work/costs")
    if [ "$packages" -gt 100 ]; then
      echo "compile.sh: compiling $((packages)) packages for $name. This takes minutes, once."
      start_reporter compile.sh 20 "$work/costs" "$work/log"
    fi
  fi
  wait "$compiler" || status=$?
  compiler=
  stop_reporter
  if [ "$status" != 0 ]; then
    # Names of compiled packages are one word, and of the tests that they are compiled for; everything else is a message.
    grep -vE '^[^ #]+( \[[^ ]+\])?$' "$work/log" >&2 || true
    return "$status"
  fi
  [ $((SECONDS - begin)) -lt 10 ] || echo "compile.sh: compiled $name in $((SECONDS - begin)) s"
}

[ $# -gt 0 ] || set -- plain cluster node chart race
for what in $(printf '%s\n' "$@" | awk '!seen[$0]++'); do
  case $what in
  plain) compile "the tests" . ./... ;;
  cluster) compile "the tests of hack/cluster" hack/cluster ./... ;;
  node) compile "the real node of hack/cluster" hack/cluster -tags node ./... ;;
  chart) compile "the tests of the Helm chart" hack/chart ./... ;;
  race) CGO_ENABLED=1 compile "the tests, with the race detector" . -race ./... ;;
  race-unit)
    mapfile -t packages < <(hack/test-packages.sh unit)
    CGO_ENABLED=1 compile "the unit tests, with the race detector" . -race "${packages[@]}"
    ;;
  *) echo "compile.sh: invalid argument \"$what\": must be plain, cluster, node, chart, race or race-unit" >&2 && exit 2 ;;
  esac
done
