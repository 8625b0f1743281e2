#!/usr/bin/env bash
# perturb.sh [all]: kills and delays the controllers and freezes their caches at each of their writes, on a real control plane, and prints how
# many of these runs reached the same final state. With all, it uses every pattern; without, those for which every test run has time.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

unset KUBECONFIG PERTURB_ALL
[ "${1:-}" != all ] || export PERTURB_ALL=true

mkdir -p .local/tests
log=.local/tests/perturbation.log
read -ra testlog <<<"${TESTLOG:-go run ./hack/testlog}"

# Most of a run is waiting, many of them are run concurrently. Vet is left to make verify.
CGO_ENABLED=1 go test -race -json -vet=off -timeout 2h -parallel 16 ./pkg/testing/perturbation | "${testlog[@]}" --log "$log"
awk '/^=== NAME/ { name = $3 } / tried, / { sub(/.*harness.go:[0-9]+: /, ""); printf "%-50s %s\n", name, $0; tried += $5; held += $7 }
  END { printf "%d runs tried, %d held\n", tried, held }' "$log"
