#!/usr/bin/env bash
# go vet has no findings in any module.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

go vet ./...
(cd hack/chart && go vet ./...)
(cd hack/cluster && go vet ./... && go vet -tags node ./...)
echo "go vet has no findings in all modules"
