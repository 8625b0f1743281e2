#!/usr/bin/env bash
# install.sh: installs the CRDs into the cluster that CLUSTER names, or updates them there; see target-cluster.sh.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh

require_cluster
install_crds
