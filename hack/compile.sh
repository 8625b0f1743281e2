#!/usr/bin/env bash
# compile.sh [WHAT...]: compiles packages and their tests with all processors, and links nothing. Without arguments it compiles everything that
# .ci/run needs. It comes first: a test that looks at a clock fails next to a compiler.
#   plain    this module, for programs and checks
#   cluster  hack/cluster, also with its real node
#   chart    hack/chart
#   race     this module, with the race detector
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

read -ra build_env <<<"$(hack/build-env.sh)"

# compile DIRECTORY FLAG...: compiles a module.
compile() {
  (cd "$1" && env ${build_env[@]+"${build_env[@]}"} go list -export -deps -test "${@:2}" ./... >/dev/null)
}

[ $# -gt 0 ] || set -- plain cluster chart race
for what in $(printf '%s\n' "$@" | awk '!seen[$0]++'); do
  begin=$SECONDS
  case $what in
  plain) compile . ;;
  cluster) compile hack/cluster && compile hack/cluster -tags node ;;
  chart) compile hack/chart ;;
  race) CGO_ENABLED=1 compile . -race ;;
  *) echo "compile.sh: invalid argument \"$what\": must be plain, cluster, chart or race" >&2 && exit 2 ;;
  esac
  [ $((SECONDS - begin)) -lt 10 ] || echo "compile.sh: compiled $what in $((SECONDS - begin)) s"
done
