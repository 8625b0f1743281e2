#!/usr/bin/env bash
# No function is dead: programs call each, or tests if it is in pkg/testing.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

if ! found=$(go run ./hack/deadcode 2>&1); then
  printf 'These functions are never called. Remove them, or give a reason in hack/deadcode/allowed.txt.\n%s\n' "$found"
  exit 1
fi
echo "no function is dead"
