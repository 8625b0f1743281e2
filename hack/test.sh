#!/usr/bin/env bash
# test.sh PART...: runs parts of the tests and tells how long each took.
#   unit          of the packages whose tests need no cluster
#   integration   of those whose tests import pkg/testing/testcluster: on real control planes, which need bin/cluster; but perturbation
#   perturbation  the one of them that disturbs the controllers at each of their writes; perturb.sh
#   cluster       of hack/cluster, the module that bin/cluster is built from
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unset KUBECONFIG # no test has anything to do with whatever it names

# packages integration|unit: the packages whose tests need a cluster, or the others.
packages() {
  go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
    awk -v part="$1" '{
      needs = 0
      for (i = 1; i <= NF; i++) if ($i == "millwright.dev/pkg/testing/testcluster") needs = 1
      if (needs == (part == "integration")) print $1
    }'
}

# Compiled as fast as the machine can, but run one package at a time: each keeps control planes busy, and some tests measure time. Most
# of a package's tests wait, so more of them run at once than there are cores. And always anew: go test does not know what bin/cluster
# and bin/kubectl have read.
integration() {
  local list
  list=$(packages integration | grep -v /perturbation$)
  xargs go test -race -c -o /dev/null <<<"$list"
  xargs go test -race -p 1 -parallel 4 -count=1 -timeout 2h <<<"$list"
}

run_part() {
  case $1 in
  unit) packages unit | xargs go test -race -timeout 1h ;;
  integration) integration ;;
  perturbation) hack/perturb.sh ;;
  # Without the race detector and as bin/cluster is built: else all of Kubernetes would have to be compiled once more.
  cluster) cd hack/cluster && CGO_ENABLED=0 go test -trimpath -timeout 1h ./... ;;
  *) echo "test.sh: there is no part $1" >&2 && return 2 ;;
  esac
}

status=0
summary=
for part in "$@"; do
  echo "== $part tests"
  begin=$SECONDS
  verdict=ok
  (run_part "$part") || verdict=FAILED status=1
  summary+=$(printf '%-12s %-7s %4d s' "$part" "$verdict" $((SECONDS - begin)))$'\n'
done
printf '== tests\n%s' "$summary"
exit "$status"
