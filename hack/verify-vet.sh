#!/usr/bin/env bash
# go vet has no findings in any module.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go vet ./...
(cd hack/chart && CGO_ENABLED=0 go vet -trimpath ./...)
# With the flags of the build of bin/cluster: otherwise all of Kubernetes would have to be compiled again.
read -ra flags <<<"$(hack/build-flags.sh)"
(cd hack/cluster && CGO_ENABLED=0 go vet "${flags[@]}" ./... && CGO_ENABLED=0 go vet "${flags[@]}" -tags node ./...)
echo "go vet has no findings in all modules"
