#!/usr/bin/env bash
# Sourced by test.sh: the parts of the tests. part_NAME runs a part; prepare compiles what parts need before any of them runs.
# shellcheck disable=SC2154 # logs, outputs, work

# tests PART ARG...: runs go test with the folder, the environment and the flags of the part, and reports it. Vet is part of make verify. Results of
# tests that start other programs are never cached: go test does not know what bin/cluster and bin/kubectl have read. Most tests on a cluster wait,
# so more of them run concurrently than there are cores, but one package at a time: each keeps control planes busy.
tests() (
  part=$1 folder=. flags=()
  shift
  case $part in
  unit) flags=(-race -timeout 1h) ;;
  integration) flags=(-race -p 1 -parallel 8 -count=1 -timeout 2h) ;;
  # A run waits most of its time for a quiet moment: many run concurrently.
  perturbation) flags=(-parallel 32 -count=1 -timeout 2h) ;;
  perturbation-race) flags=(-race -short -skip TestClassicBugsAreFound -parallel 32 -count=1 -timeout 1h) ;;
  perturbation-all)
    flags=(-race -parallel 16 -count=1 -timeout 4h)
    export PERTURB_ALL=true
    ;;
  # Without the race detector: otherwise all of Kubernetes, or Helm, would have to be compiled again.
  cluster) folder=hack/cluster flags=(-timeout 1h) ;;
  chart) folder=hack/chart flags=(-count=1 -timeout 30m) ;;
  node)
    folder=hack/cluster flags=(-count=1 -timeout 1h)
    export NODE_TESTS=yes
    ;;
  e2e)
    flags=(-count=1 -timeout 1h)
    export E2E_IMAGES=$PWD/bin/e2e
    ;;
  esac
  case " ${flags[*]} " in *" -race "*) export CGO_ENABLED=1 ;; esac
  cd "$folder"
  go test -json -vet=off "${flags[@]}" "$@" |
    "$work/testlog" --part "$part" --log "${log_file:-$logs/$part.log}" --results "${results_file:-$logs/$part.results}" --outputs "$outputs"
)

# packages integration|unit: the packages whose tests need a cluster, or the others.
packages() {
  go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
    awk -v part="$1" '{
      needs = 0
      for (i = 1; i <= NF; i++) if ($i == "millwright.dev/pkg/testing/testcluster") needs = 1
      if (needs == (part == "integration")) print $1
    }'
}

part_unit() {
  local list
  mapfile -t list < <(packages unit)
  tests unit "${list[@]}"
}

part_integration() {
  local list
  mapfile -t list < <(packages integration | grep -vE "/(perturbation|e2e)$")
  tests integration "${list[@]}"
}

# part_perturbation PART: also prints how many runs reached the same final state.
part_perturbation() {
  local status=0
  tests "$1" ./pkg/testing/perturbation || status=$?
  awk '/^=== NAME/ { name = $3 } / tried, / { sub(/.*harness.go:[0-9]+: /, ""); printf "%-50s %s\n", name, $0; tried += $5; held += $7 }
    END { printf "%d runs tried, %d held\n", tried, held }' "$logs/$1.log"
  return "$status"
}
part_perturbation_race() { part_perturbation "$@"; }
part_perturbation_all() { part_perturbation "$@"; }

part_cluster() { tests cluster ./...; }

part_chart() { tests chart ./...; }

part_node() { tests node -run Node ./e2e; }

e2e_images= # not empty: e2e-images.sh has built them
part_e2e() {
  hack/require.sh node || return
  [ -n "$e2e_images" ] || hack/e2e-images.sh || return
  tests e2e ./pkg/testing/e2e
}

part_run() {
  local begin=$SECONDS
  hack/test-run.sh 2>&1 | tee "$logs/run.log" || return
  echo "run $((SECONDS - begin)).00 pass - -" >"$logs/run.results"
}

# prepare PART...: compiles what the parts need.
prepare() {
  local what=() part
  for part in "$@"; do
    case $part in
    perturbation) what+=(plain) ;;
    unit | integration | perturbation-*) what+=(race) ;;
    cluster | node) what+=(cluster) ;;
    chart) what+=(chart) ;;
    run) make build bin/leash ;;
    e2e) ! hack/e2e-images.sh || e2e_images=built ;;
    esac
  done
  [ "${#what[@]}" = 0 ] || hack/compile.sh "${what[@]}"
}
