#!/usr/bin/env bash
# The go.mod and go.sum of every module are tidy.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for module in . hack/chart hack/cluster hack/cluster/coredns; do
  if ! difference=$(cd "$module" && go mod tidy -diff 2>&1); then
    printf '%s/go.mod or go.sum is not tidy. Run there: go mod tidy\n%s\n' "$module" "$difference"
    exit 1
  fi
done
echo "every module is tidy"
