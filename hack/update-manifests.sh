#!/usr/bin/env bash
# Regenerates the manifests that follow from Go: CRDs from the types in pkg/apis, roles from the markers of the controllers, and what follows
# from their table.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh
export LC_ALL=C # what is generated is sorted the same way for everyone
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Finished elsewhere and then moved here, so that the CRD of a kind that is gone goes too.
controller_gen=(go run sigs.k8s.io/controller-tools/cmd/controller-gen) # not go tool, which ignores the flags of go-env.sh
echo "Generating CRDs"
"${controller_gen[@]}" crd:generateEmbeddedObjectMeta=true paths=./pkg/apis/... output:crd:dir="$work/crds"
go run ./hack/crds "$work"/crds/*.yaml
mkdir -p manifests/00-crds
rm -f manifests/00-crds/*.yaml
mv "$work"/crds/*.yaml manifests/00-crds/

# The rights of each Deployment are what the markers of its controllers say (doc.go). Which those are is in the table of pkg/manager.
echo "Generating roles"
go build -o "$work/manifests" ./hack/manifests
"$work/manifests" deployments >"$work/deployments"
while read -r name controllers; do
  read -ra paths <<<"$controllers"
  "${controller_gen[@]}" "rbac:roleName=millwright-$name" "${paths[@]/#/paths=./pkg/controller/}" output:rbac:dir="$work/$name"
  {
    echo "# What the controllers of the Deployment millwright-$name may do. Generated from the markers in their doc.go by make generate."
    cat "$work/$name/role.yaml"
  } >"manifests/21-$name-role.yaml"
done <"$work/deployments"

echo "Generating the parts of manifests that follow from the table"
"$work/manifests"

# After everything that the kustomization names.
echo "Generating the chart"
(cd hack/chart && go run . ../../manifests)
