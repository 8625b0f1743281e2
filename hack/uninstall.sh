#!/usr/bin/env bash
# uninstall.sh: removes the CRDs from the cluster that CLUSTER names, and with them all objects of our kinds; see target-cluster.sh.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh

require_cluster
crds=$(kubectl get --ignore-not-found -f manifests/00-crds -o name)
if [ -z "$crds" ]; then
  echo "None of our CRDs is installed."
  exit
fi
drain
for crd in $crds; do
  echo "Deleting ${crd#*/}, with these objects and what they own:"
  kubectl get "${crd#*/}" --all-namespaces 2>&1 | sed 's/^/  /'
done
kubectl delete --ignore-not-found --timeout=2m -f manifests/00-crds ||
  fail "Not everything was deleted. Objects with a finalizer wait for their controller: start it, or list them with kubectl get."
