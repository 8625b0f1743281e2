#!/usr/bin/env bash
# perturb.sh [all]: kills, blinds and delays the controllers at every one of their writes, on a real control plane, and tells how many
# of these runs came to the same end. With all, by every pattern; without, by those that every test run has time for.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unset KUBECONFIG PERTURB_ALL
[ "${1:-}" != all ] || export PERTURB_ALL=true

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Most of a run is waiting, so many of them go at a time.
if ! go test -race -v -timeout 2h -parallel 16 ./pkg/testing/perturbation >"$log" 2>&1; then
  grep -vE '^(=== |[[:space:]]*--- PASS)' "$log" >&2
  exit 1
fi
awk '/^=== NAME/ { name = $3 } / tried, / { sub(/.*harness.go:[0-9]+: /, ""); printf "%-50s %s\n", name, $0; tried += $5; held += $7 }
  END { printf "%d runs tried, %d held\n", tried, held }' "$log"
tail -n 1 "$log"
