#!/usr/bin/env bash
# test.sh PART...: runs parts of the tests, prints how long each took, and which tests were the slowest.
#   unit          packages whose tests need no cluster
#   cluster       hack/cluster, the module of bin/cluster
#   chart         hack/chart, the module of the Helm chart: on real control planes, which need bin/cluster
#   integration   packages whose tests import pkg/testing/testcluster, except perturbation: on real control planes, which need bin/cluster
#   perturbation  the package that disturbs the controllers at each of their writes; perturb.sh
# The whole output of a part is in .local/tests/PART.log.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

unset KUBECONFIG # tests use their own clusters only

logs=$PWD/.local/tests
slowest=10
mkdir -p "$logs"
work=$(mktemp -d)
background= # the process group of the parts that run next to others
trap '[ -z "$background" ] || kill -TERM -- "-$background" 2>/dev/null || true; rm -rf "$work"' EXIT
go build -o "$work/testlog" ./hack/testlog

# tests PART ARG...: runs go test and reports it. Vet is part of make verify.
tests() {
  local part=$1
  shift
  go test -json -vet=off "$@" | "$work/testlog" --log "$logs/$part.log" --times "$work/times"
}

# packages integration|unit: the packages whose tests need a cluster, or the others.
packages() {
  go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
    awk -v part="$1" '{
      needs = 0
      for (i = 1; i <= NF; i++) if ($i == "millwright.dev/pkg/testing/testcluster") needs = 1
      if (needs == (part == "integration")) print $1
    }'
}

# Compiled as fast as the machine can (by go list, which does not link: go test links anyway), but run one package at a time: each keeps
# control planes busy, and some tests measure time. Most of a package's tests wait, so more of them run concurrently than there are
# cores. Results are never cached: go test does not know what bin/cluster and bin/kubectl have read.
integration() {
  local list
  mapfile -t list < <(packages integration | grep -v /perturbation$)
  CGO_ENABLED=1 go list -race -test -deps -export "${list[@]}" >/dev/null
  CGO_ENABLED=1 tests integration -race -p 1 -parallel 8 -count=1 -timeout 2h "${list[@]}"
}

unit() {
  local list
  mapfile -t list < <(packages unit)
  CGO_ENABLED=1 tests unit -race -timeout 1h "${list[@]}"
}

# Without the race detector: otherwise all of Kubernetes would have to be compiled again.
cluster() {
  cd hack/cluster
  tests cluster -timeout 1h ./...
}

# Without the race detector: the module has no goroutines of its own, and Helm would have to be compiled again.
chart() {
  cd hack/chart
  tests chart -count=1 -timeout 30m ./...
}

perturbation() { TESTLOG="$work/testlog --times $work/times" hack/perturb.sh; }

# run PART: runs a part, and adds its line to the summary, which is in $work/summary.
run() {
  local begin=$SECONDS verdict=ok status=0
  echo "== $1 tests"
  ("$1") || verdict=FAILED status=1
  printf '%-12s %-7s %4d s\n' "$1" "$verdict" $((SECONDS - begin)) >>"$work/summary"
  return "$status"
}

# run_all PART...: runs all of them, even if one fails.
run_all() {
  local part status=0
  for part in "$@"; do
    run "$part" || status=1
  done
  return "$status"
}

parts=()
waiting=() # parts that mostly wait: they run next to the others
for part in "$@"; do
  case $part in
  unit | integration | perturbation) parts+=("$part") ;;
  cluster | chart) waiting+=("$part") ;;
  *) echo "invalid part \"$part\": must be unit, cluster, chart, integration or perturbation" >&2 && exit 2 ;;
  esac
done
status=0
# In a process group of its own, which the end of this script ends.
set -o monitor
(run_all "${waiting[@]}") >"$work/waiting" 2>&1 &
background=$!
set +o monitor
run_all "${parts[@]}" || status=1
wait "$background" || status=1
background=
cat "$work/waiting"
if [ -s "$work/times" ]; then
  echo "== slowest tests"
  sort -rn "$work/times" | awk -v most="$slowest" 'NR <= most { printf "%6.0f s  %s %s\n", $1, $2, $3 }'
fi
echo "== tests"
cat "$work/summary"
exit "$status"
