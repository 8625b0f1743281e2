#!/usr/bin/env bash
# No two kinds have the same ten lines.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

if ! found=$(go run ./hack/duplicates 2>&1); then
  printf 'Kinds have the same lines. Move them to pkg/controller, a domain or pkg/testing.\n%s\n' "$found"
  exit 1
fi
echo "no two kinds have the same ten lines"
