#!/usr/bin/env bash
# test-failed.sh: runs the tests that failed in the last run of test.sh, and prints what became of them. A test that passes is not run by the next
# test-failed.sh. They run with the race detector if they did before.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh
source hack/test-parts.sh

logs=$PWD/.local/tests
outputs=$logs/outputs
mkdir -p "$outputs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/testlog" ./hack/testlog
"$work/testlog" failed "$logs"/*.results >"$work/failed"
if [ ! -s "$work/failed" ]; then
  echo "No test failed in the last run."
  exit
fi

mapfile -t parts < <(cut -d ' ' -f 1 "$work/failed" | sort -u)
RACE=${RACE-$(cat "$logs/race" 2>/dev/null || true)}
choose_race "${parts[@]}"
choose_kind
prepare "${parts[@]}"
status=0
while read -r part package pattern <&3; do
  echo "== $part $package $pattern"
  if [ "$package" = - ]; then
    hack/test.sh "$part" || status=1
    continue
  fi
  rm -f "$work/new"
  results_file=$work/new tests "$part" -count=1 -run "$pattern" "$package" || status=1
  # What passed replaces what failed.
  awk -v package="$package" 'NR == FNR { new[$5]; print; next } !($4 == package && ($5 in new || $5 == "-"))' "$work/new" "$logs/$part.results" >"$work/merged"
  mv "$work/merged" "$logs/$part.results"
done 3<"$work/failed"
exit "$status"
