#!/usr/bin/env bash
# go vet has nothing to say about either module.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go vet ./...
# As bin/cluster is built: else all of Kubernetes would have to be compiled once more.
(cd hack/cluster && CGO_ENABLED=0 go vet -trimpath ./...)
echo "go vet is content with both modules"
