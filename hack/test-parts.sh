#!/usr/bin/env bash
# Sourced by test.sh and test-failed.sh: the parts of the tests. part_NAME runs a part; prepare compiles what parts need before any of them runs.
# shellcheck disable=SC2154 # logs, outputs, work

follows= # the parts after the one that runs, for how long the run still takes

# choose_race PART...: chooses which parts have the race detector: race_unit and race_integration are what is compiled for it, or empty.
choose_race() {
  local missing
  race_unit=race-unit race_integration=''
  case ${RACE:-} in
  '') ;;
  yes) race_integration=race ;;
  *) echo "invalid RACE=$RACE: must be yes, or empty" >&2 && exit 2 ;;
  esac
  if [ -n "$race_integration" ] || [[ " $* " == *\ perturbation-* ]]; then
    hack/require.sh race
  elif [[ " $* " == *\ unit\ * ]] && ! missing=$(hack/require.sh race 2>&1); then
    race_unit=
    echo "$missing. The unit tests run without it."
  fi
}

# choose_kind: chooses the tests of KIND, or all: unit_packages and cluster_packages match the packages, and cluster_tests are the flags for the tests.
choose_kind() {
  local engine='controller/engine|hook|objectcache|related|merge|jsonscan' paths names
  unit_packages='' cluster_packages='' cluster_tests=()
  case ${KIND:-} in
  '') return ;;
  immortalcontainer) paths='controller/immortalcontainer' names=ImmortalContainer ;;
  helloapp) paths='controller/helloapp' names=HelloApp ;;
  machine | switch) paths='controller/machine' names=Machine ;;
  actionset | blueprint | profile) paths='controller/actionset|blueprint|phase' names='(ActionSet|KubeOps|KubeTask)' ;;
  compositecontroller) paths="controller/composite|$engine" names=Composite ;;
  decoratorcontroller) paths="controller/decorator|$engine" names=Decorator ;;
  llama | farmpod) paths='registry|apiserver|storage' names=Farm ;;
  *)
    echo "invalid KIND=$KIND: must be actionset, blueprint, compositecontroller, decoratorcontroller, farmpod, helloapp, immortalcontainer, llama," \
      "machine, profile or switch" >&2
    exit 2
    ;;
  esac
  unit_packages="/pkg/($paths)(/|\$)" cluster_packages='/integration$' cluster_tests=(-run "^Test$names")
}

# tests PART ARG...: runs go test with the folder, the environment and the flags of the part, and reports it. Vet is part of make verify. Results of
# tests that start other programs are never cached: go test does not know what bin/cluster and bin/kubectl have read. Most tests on a cluster wait,
# so more of them run concurrently than there are cores, but one package at a time: each keeps control planes busy.
tests() (
  part=$1 folder=. flags=()
  shift
  case $part in
  unit) flags=(${race_unit:+-race} -timeout 1h) ;;
  integration) flags=(${race_integration:+-race} -p 1 -parallel 8 -count=1 -timeout 2h) ;;
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
  memory)
    flags=(-count=1 -timeout 3h)
    export MEMORY_TESTS=yes
    ;;
  random) flags=(-count=10 -parallel 8 -timeout 3h) ;;
  fuzz) flags=(-timeout 10m) ;;
  esac
  case " ${flags[*]} " in *" -race "*) export CGO_ENABLED=1 ;; esac
  cd "$folder"
  [ -z "${KIND:-}" ] || packages=0 # how long it takes is known for all kinds together
  go test -json -vet=off "${flags[@]}" "$@" |
    "$work/testlog" --part "$part" --packages "${packages:-0}" --then "$follows" --log "${log_file:-$logs/$part.log}" --results "${results_file:-$logs/$part.results}" --outputs "$outputs"
)

part_unit() {
  local list
  mapfile -t list < <(hack/test-packages.sh unit | grep -E "$unit_packages")
  packages=${#list[@]} tests unit "${list[@]}"
}

part_integration() {
  local list
  mapfile -t list < <(hack/test-packages.sh integration | grep -E "$cluster_packages" | grep -vE "/(perturbation|e2e)$")
  packages=${#list[@]} tests integration "${cluster_tests[@]}" "${list[@]}"
}

# part_perturbation PART: also prints how many runs reached the same final state.
part_perturbation() {
  local status=0
  packages=1 tests "$1" "${cluster_tests[@]}" ./pkg/testing/perturbation || status=$?
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

part_memory() { tests memory -run 'Memory$' ./pkg/testing/integration; }

part_random() { tests random -run 'Random|Chaos' ./pkg/testing/integration; }

# part_fuzz: go test takes one fuzz test at a time. Their seeds are part of unit.
part_fuzz() {
  local status=0 file name log=$work/fuzz.log
  : >"$logs/fuzz.log"
  while IFS=: read -r file name; do
    log_file=$log tests fuzz -run "^$name\$" -fuzz "^$name\$" -fuzztime 20s "./$(dirname "$file")" || status=$?
    cat "$log" >>"$logs/fuzz.log"
  done < <(grep -roE --include='*_test.go' '^func Fuzz\w+' cmd hack pkg | sed 's/:func /:/')
  return "$status"
}

# prepare PART...: compiles what the parts need.
prepare() {
  local what=() part
  for part in "$@"; do
    case $part in
    unit) what+=("${race_unit:-plain}") ;;
    integration) what+=("${race_integration:-plain}") ;;
    perturbation | memory | random | fuzz) what+=(plain) ;;
    perturbation-*) what+=(race) ;;
    cluster | chart) what+=("$part") ;;
    node) what+=(cluster node) ;;
    run) make build bin/leash ;;
    e2e) ! hack/e2e-images.sh || e2e_images=built ;;
    esac
  done
  [ "${#what[@]}" = 0 ] || hack/compile.sh "${what[@]}"
}
