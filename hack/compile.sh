#!/usr/bin/env bash
# compile.sh: compiles what the checks and tests of all modules need, their tests too, with all processors and without the race detector and
# with it. It links nothing. .ci/run calls it first: a compiler next to a test that looks at a clock makes the test fail.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

read -ra build_env <<<"$(hack/build-env.sh)"

# compile DIRECTORY FLAG...: compiles a module.
compile() {
  local begin=$SECONDS
  (cd "$1" && env ${build_env[@]+"${build_env[@]}"} go list -export -deps -test "${@:2}" ./... >/dev/null)
  echo "compile.sh: compiled $* in $((SECONDS - begin)) s"
}

compile .
compile hack/cluster
compile hack/cluster -tags node
compile hack/chart
export CGO_ENABLED=1
compile . -race
