#!/usr/bin/env bash
# test.sh PART...: runs parts of the tests, prints how long each took, which tests were the slowest, and what became of all of them.
#   unit          packages whose tests need no cluster
#   integration   packages whose tests import pkg/testing/testcluster, except perturbation and e2e: on real control planes, which need bin/cluster
#   perturbation  the package that disturbs the controllers at each of their writes, without the race detector; perturbation-race: each scenario
#                 undisturbed and with one crash, with it; perturbation-all: by every pattern, with it, for which not every run has time
#   cluster       hack/cluster, the module of bin/cluster
#   chart         hack/chart, the module of the Helm chart: on real control planes, which need bin/cluster
#   run           make run as a newcomer uses it (test-run.sh)
#   node          the real node of hack/cluster
#   e2e           the end-to-end tests, pkg/testing/e2e, on a real node
#   memory        hostile input to each Deployment's process within its memory limit; nothing else should run
#   random        the integration tests of random operations, with ten seeds
#   fuzz          every fuzz test, 20 seconds each
# RACE=yes runs integration with the race detector, too. Without it, Kubernetes' libraries are compiled once for it, as they are for bin/cluster, and
# the race detector is for the unit tests only, if there is a C compiler. KIND=NAME runs the tests of one kind, of unit, integration and perturbation.
#
# First it compiles, and runs unit, which links much. Then the parts that wait and look at clocks run in two lanes: integration and perturbation,
# and next to them the others one after the other, because some use the same ports and the real node.
#
# A test that failed runs once more when all else has ended, alone. If it passes then, it is FLAKY, and the run is good: mend it before the next
# change. What depends on no chance (a data race, a panic, a leaked goroutine), or more than five tests, is not run again.
#
# The whole output of a part is in .local/tests/PART.log.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh
source hack/test-parts.sh

unset KUBECONFIG PERTURB_ALL MEMORY_TESTS NODE_TESTS # tests use their own clusters only

logs=$PWD/.local/tests
outputs=$logs/outputs # of tests that failed, and of those that ran again
mkdir -p "$outputs"
work=$(mktemp -d)
background= # the process group of the second lane
trap '[ -z "$background" ] || kill -TERM -- "-$background" 2>/dev/null || true; rm -rf "$work"' EXIT
go build -o "$work/testlog" ./hack/testlog

# run PART: runs a part, and adds its line to the summary, which is in $work/summary. What failed is in its results.
run() {
  local begin=$SECONDS verdict=ok status=0
  echo "== $1 tests"
  rm -f "$logs/$1.results"
  ("part_${1//-/_}" "$1") || status=$?
  case $status in
  0) ;;
  3) verdict=SKIPPED ;; # this machine cannot run it
  *)
    verdict=FAILED
    # A part that compiles nothing may have failed by chance as a whole, for instance because a package could not be downloaded.
    if ! grep -qE ' (fail|broken) ' "$logs/$1.results" 2>/dev/null; then
      case $1 in
      run | e2e | node) echo "$1 $((SECONDS - begin)).00 fail - -" ;;
      *) echo "$1 $((SECONDS - begin)).00 broken - - it ended with exit status $status" ;;
      esac >>"$logs/$1.results"
      cp "$logs/$1.log" "$outputs/$1.-.-.failed.log" 2>/dev/null || true
    fi
    ;;
  esac
  printf '%-16s %-7s %4d s\n' "$1" "$verdict" $((SECONDS - begin)) >>"$work/summary"
}

run_all() {
  local part
  while [ $# -gt 0 ]; do
    part=$1
    shift
    follows="$* ${later[*]}" run "$part"
  done
}

# run_again: runs what failed, one test after the other. Its results are in $work/again.results.
run_again() {
  local part package test name
  "$work/testlog" again "$@" >"$work/again" || return 0
  while read -r part package test name <&3; do
    echo "== again, alone: $part $package $test"
    if [ "$package" = - ]; then
      cp "$logs/$part.results" "$work/first.results"
      e2e_images='' run "$part"
      cp "$logs/$part.log" "$outputs/$name.again.log"
      cat "$logs/$part.results" >>"$work/again.results"
      cp "$work/first.results" "$logs/$part.results"
    else
      log_file=$outputs/$name.again.log results_file=$work/again.results tests "$part" -count=1 -run "^$test\$" "$package" || true
    fi
  done 3<"$work/again"
}

first=() lane=() waiting=()
for part in "$@"; do
  case $part in
  unit) first+=("$part") ;;
  integration | perturbation | perturbation-all | random) lane+=("$part") ;;
  cluster | chart | run | node | e2e | memory | fuzz | perturbation-race) waiting+=("$part") ;;
  *) echo "invalid part \"$part\": must be unit, integration, perturbation, perturbation-race, perturbation-all, cluster, chart, run, node, e2e, memory, random or fuzz" >&2 && exit 2 ;;
  esac
done
# Without the long parts, the second lane has time for perturbation.
if [ "${lane[*]}" = "integration perturbation" ] && [[ " ${waiting[*]} " != *\ @(run|node|e2e|memory)\ * ]]; then
  lane=(integration) waiting+=(perturbation)
fi

rm -f "$outputs"/*
choose_race "$@"
choose_kind
echo "${RACE:-}" >"$logs/race" # for test-failed.sh
prepare "$@"
later=("${lane[@]}")
run_all "${first[@]}"
later=()
# In a process group of its own, which the end of this script ends.
set -o monitor
(run_all "${waiting[@]}") >"$work/waiting" 2>&1 &
background=$!
set +o monitor
run_all "${lane[@]}"
[ "${#waiting[@]}" = 0 ] || echo "Waiting for ${waiting[*]}"
wait "$background" || true
background=
cat "$work/waiting"
results=("${@/#/$logs/}")
results=("${results[@]/%/.results}")
run_again "${results[@]}"
status=0
"$work/testlog" summary --outputs "$outputs" --closing "$logs/closing" --again "$work/again.results" "${results[@]}" || status=1
echo "== parts"
# Where the run is good, a part has failed by chance only.
if [ "$status" = 0 ]; then
  sed 's/ FAILED / FLAKY  /' "$work/summary"
else
  cat "$work/summary"
fi
cat "$logs/closing"
exit "$status"
