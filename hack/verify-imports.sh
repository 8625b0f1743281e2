#!/usr/bin/env bash
# Imports follow the design: they go down only, and pure files stay pure.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

if ! broken=$(go run ./hack/imports 2>&1); then
  printf 'These imports go against the layers. Move the code; the rules are in hack/imports/rules.go.\n%s\n' "$broken"
  exit 1
fi
# go.mod has what dependencies import, too.
if grep -n 'k8s.io/kubernetes ' go.mod; then
  echo "A dependency has added k8s.io/kubernetes to go.mod, where it must not be. To see which: go mod why -m k8s.io/kubernetes"
  exit 1
fi
echo "imports go down only"
