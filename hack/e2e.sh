#!/usr/bin/env bash
# e2e.sh [FLAGS OF go test]: runs the end-to-end tests, pkg/testing/e2e, on a real node. If this machine cannot have one, it exits with code 3.
# E2E_IMAGES names the folder in which e2e-images.sh has left the images; without it, they are built first.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

hack/require.sh node
if [ -z "${E2E_IMAGES:-}" ]; then
  hack/e2e-images.sh
  export E2E_IMAGES=$PWD/bin/e2e
fi
go test -count=1 -timeout 1h -v "$@" ./pkg/testing/e2e
