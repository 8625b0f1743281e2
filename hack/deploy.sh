#!/usr/bin/env bash
# deploy.sh WHAT: Millwright as Pods of the cluster that CLUSTER names (target-cluster.sh), of the image $IMG.
#   deploy    installs it, or changes what is installed to this image and these manifests, and returns when it is at work
#   undeploy  removes it, but neither the CRDs nor what its users have made, except for CompositeControllers with a finalizer; ActionSets
#             that run are cancelled (drain.sh)
#   bundle    writes all that deploy applies to $BUNDLE
# The local cluster needs a real node ("make cluster-node"), which has the image from bin/image/image.tar. Any other pulls it.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh

namespace=millwright-system
# What deploy installs and undeploy removes: not the CRDs, which hold what users own.
installed=(manifests/[2-9][0-9]-*.yaml)

# render [MORE]: prints manifests/ with the image in its place, and with more of what a kustomization can say.
render() {
  local overlay=$local_dir/deploy name=$IMG version=
  case $IMG in
  *@*) name=${IMG%%@*} version="digest: \"${IMG#*@}\"" ;;
  *:*)
    # A colon before the last slash is that of a port.
    if [[ ${IMG##*/} == *:* ]]; then
      name=${IMG%:*} version="newTag: \"${IMG##*:}\""
    fi
    ;;
  esac
  [ -n "$version" ] || fail "IMG=$IMG has no tag and no digest: what would run is whatever is called latest. Give one, as in IMG=$IMG:v1.0.0"
  mkdir -p "$overlay"
  ln -sfn "$PWD/manifests" "$overlay/manifests" # kustomize takes no absolute path
  cat >"$overlay/kustomization.yaml" <<EOF
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- manifests
images:
- name: millwright
  newName: $name
  $version
${1:-}
EOF
  kubectl kustomize "$overlay"
}

# image_patch makes the local cluster run what was just built, also where it has the same tag as what runs already.
image_patch() {
  cat <<EOF
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/template/metadata/annotations/millwright.dev~1image, value: "$(tar -xOf bin/image/image.tar index.json | cksum)"}
EOF
}

# bring_image to the local node, which cannot pull one.
bring_image() {
  [ -n "$(kubectl get nodes --selector type=real --output name)" ] ||
    fail "The local cluster has no real node for Pods to run on. Stop it, and start in another terminal: make cluster-node"
  echo "Bringing $IMG to the node"
  bin/cluster image load --dir "$cluster_dir" bin/image/image.tar
}

deploy() {
  if [ -n "${CLUSTER:-}" ]; then
    render >"$work/all.yaml"
  else
    bring_image
    render "$(image_patch)" >"$work/all.yaml"
  fi
  kubectl apply --server-side -f "$work/all.yaml"
  if ! kubectl rollout status --namespace "$namespace" --timeout=3m deployment; then
    kubectl describe pods --namespace "$namespace" >&2
    fail "" "Millwright is not at work after 3 minutes. Above is what its Pods say; what they log is shown by:" \
      "  kubectl logs --namespace $namespace --selector app.kubernetes.io/name=millwright --prefix"
  fi
  kubectl get pods --namespace "$namespace"
  echo
  echo "Millwright is at work. Try a sample, and see what it says:"
  [ -n "${CLUSTER:-}" ] || echo "  export KUBECONFIG=$(printf %q "$kubeconfig") PATH=$(printf %q "$PWD/bin"):\$PATH"
  echo "  kubectl apply -f $(printf %q "$PWD/manifests/samples/machine/machine-switches.yaml")"
  echo "  kubectl get machines,switches"
  echo "  kubectl logs --namespace $namespace --selector app.kubernetes.io/name=millwright --prefix"
}

undeploy() {
  local files=() file
  for file in "${installed[@]}"; do files+=(--filename "$file"); done
  drain
  # First those who work, and in peace: they need their rights until they have ended.
  kubectl delete --ignore-not-found --timeout=2m --namespace "$namespace" deployment --selector app.kubernetes.io/name=millwright --cascade=foreground
  kubectl delete --ignore-not-found --timeout=2m "${files[@]}"
  remove_namespace
  echo "The CRDs and all ${drained:+other }objects of our kinds are still there, and what was made for them runs on. To delete all that:"
  echo "  make uninstall${CLUSTER:+ CLUSTER=$CLUSTER}"
}

# remove_namespace unless somebody else has put something there.
remove_namespace() {
  local others kinds
  [ -n "$(kubectl get namespace "$namespace" --ignore-not-found --output name)" ] || return 0
  kinds=$(kubectl api-resources --namespaced --verbs=list --output name | grep -vE '^(events|events\.events\.k8s\.io|leases\..*|endpoints|endpointslices\..*|podmetrics\..*)$' | paste -sd ,)
  others=$(kubectl get "$kinds" --namespace "$namespace" --ignore-not-found --output name |
    grep -vxE 'configmap/kube-root-ca\.crt|serviceaccount/default' || true)
  if [ -n "$others" ]; then
    printf '%s\n' "Namespace $namespace stays, for there is what we have not put there:" "$others"
    return
  fi
  kubectl delete --timeout=2m namespace "$namespace"
}

bundle() {
  render >"$work/all.yaml"
  mkdir -p "$(dirname "$BUNDLE")"
  mv "$work/all.yaml" "$BUNDLE"
  echo "$BUNDLE has all of Millwright, with the image $IMG: kubectl apply --server-side -f $BUNDLE"
}

case ${1:-} in
deploy | undeploy)
  require_cluster
  "$1"
  ;;
bundle) bundle ;;
*) fail "deploy.sh: deploy, undeploy or bundle?" ;;
esac
