#!/usr/bin/env bash
# go vet has no findings in either module.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go vet ./...
# With the flags of the build of bin/cluster: otherwise all of Kubernetes would have to be compiled again.
(cd hack/cluster && CGO_ENABLED=0 go vet -trimpath ./...)
echo "go vet has no findings in both modules"
