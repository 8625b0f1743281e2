#!/usr/bin/env bash
# deploy.sh WHAT: Millwright as Pods of the cluster that CLUSTER names (target-cluster.sh), of the image $IMG.
#   deploy    installs it, or changes what is installed to this image and these manifests, and returns when it is at work
#   undeploy  removes it, but neither the CRDs nor what its users have made, except for CompositeControllers with a finalizer; ActionSets
#             that run are cancelled (drain.sh). Llamas are kept, as records, and are there again after the next deploy
#   bundle    writes all that deploy applies to $BUNDLE
# FARM=tutorial has the API server of Llamas in the namespace default, where its tutorial has it: manifests/farm-tutorial says what that implies.
# Where it is in the other namespace, deploy moves it, without a request that fails, and removes what it leaves there.
# The local cluster needs a real node ("make cluster-node"), which has the image from bin/image/image.tar. Any other pulls it.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh
source hack/farm.sh

namespace=millwright-system
# What deploy installs and undeploy removes: not the CRDs, which hold what users own.
installed=(manifests/[2-9][0-9]-*.yaml manifests/farm/[2-9][0-9]-*.yaml)
farm_namespace=$namespace
components=()
case ${FARM:-} in
'') ;;
tutorial)
  farm_namespace=default
  components=(manifests/farm-tutorial)
  ;;
*) fail "FARM=$FARM is neither empty, for the API server of Llamas in namespace $namespace, nor tutorial, for namespace default." ;;
esac

# render [PATCHES...]: prints manifests/ with the image in its place, and with these patches.
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
components: [$(IFS=, && echo "${components[*]}")]
images:
- name: millwright
  newName: $name
  $version
patches:
$(printf '%s\n' "${@:-  []}")
EOF
  kubectl kustomize "$overlay"
}

# image_patch makes the local cluster run what was just built, also where it has the same tag as what runs already.
image_patch() {
  cat <<EOF
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
  local patches=() former tutorial
  tutorial=$(tutorials_farm)
  if [ -z "${CLUSTER:-}" ]; then
    bring_image
    patches+=("$(image_patch)")
  fi
  render "${patches[@]}" >"$work/all.yaml"
  former=$(former_farm "$farm_namespace")
  if [ -n "$former" ]; then
    echo "Moving the API server of Llamas from namespace $former to $farm_namespace"
    render "${patches[@]}" "$(both_farms "$former" "$farm_namespace")" >"$work/both.yaml"
    kubectl apply --server-side -f "$work/both.yaml"
    await_work
    switch_farm "$farm_namespace"
  fi
  # What was applied by a client-side apply, and what was just patched, would have fields, defaulted ones too, that belong to another owner.
  [ -z "$former$tutorial" ] || kubectl apply --server-side --force-conflicts --selector "$farm_labels" -f "$work/all.yaml"
  kubectl apply --server-side -f "$work/all.yaml"
  # Versions before had it: it allowed phases to create Pods in the namespace of the operator, with its rights.
  kubectl delete rolebinding --namespace "$namespace" millwright-actions-application --ignore-not-found
  await_work
  kubectl wait --for=condition=Available --timeout=1m apiservice/v1alpha.farm.example.com || {
    kubectl describe apiservice v1alpha.farm.example.com >&2
    fail "" "The servers of Llamas run, but kube-apiserver does not reach them, see above: no namespace can be deleted until it does, or until" \
      "  kubectl delete apiservice v1alpha.farm.example.com"
  }
  local each
  for each in "${farm_namespaces[@]}"; do
    [ "$each" = "$farm_namespace" ] || remove_farm "$each"
  done
  remove_former_rights
  kubectl get pods --namespace "$namespace"
  [ "$farm_namespace" = "$namespace" ] || kubectl get pods --namespace "$farm_namespace" --selector app="$farm"
  echo
  echo "Millwright is at work. Try a sample, and see what it says:"
  [ -n "${CLUSTER:-}" ] || echo "  export KUBECONFIG=$(printf %q "$kubeconfig") PATH=$(printf %q "$PWD/bin"):\$PATH"
  echo "  kubectl apply -f $(printf %q "$PWD/manifests/samples/machine/machine-switches.yaml")"
  echo "  kubectl get machines,switches"
  echo "  kubectl logs --namespace $namespace --selector app.kubernetes.io/name=millwright --prefix"
}

# tutorials_farm prints the Deployment of the tutorial, if that is in the cluster, and ends the script unless ours is to take its place.
tutorials_farm() {
  local deployment
  deployment=$(kubectl get deployment --namespace default --selector "app=$farm,app.kubernetes.io/name!=millwright" --output name)
  [ -n "$deployment" ] || return 0
  [ "$farm_namespace" = default ] || fail "Namespace default has the farm-operator of the tutorial. Nothing was changed. Either take its place there," \
    "manifests/farm-tutorial/kustomization.yaml says what that implies:" \
    "  make deploy FARM=tutorial${CLUSTER:+ CLUSTER=$CLUSTER}" \
    "or remove it first, with its manifest: kubectl delete -f app.yaml"
  echo "Taking over Deployment $farm in namespace default, and what belongs to it" >&2
  echo "$deployment"
}

# await_work returns when all Deployments are at work.
await_work() {
  await_rollout "$namespace"
  [ "$farm_namespace" = "$namespace" ] || await_rollout "$farm_namespace" "$farm"
}

# await_rollout NAMESPACE [DEPLOYMENT]: of one, or of all.
await_rollout() {
  kubectl rollout status --namespace "$1" --timeout=3m deployment "${@:2}" && return
  kubectl describe pods --namespace "$1" --selector app.kubernetes.io/name=millwright >&2
  fail "" "Millwright is not at work after 3 minutes. Above is what its Pods say; what they log is shown by:" \
    "  kubectl logs --namespace $1 --selector app.kubernetes.io/name=millwright --prefix"
}

undeploy() {
  local files=() file
  for file in "${installed[@]}"; do files+=(--filename "$file"); done
  drain
  # First those who work, and in peace: they need their rights until they have ended.
  local each
  for each in "$namespace" default; do
    kubectl delete --ignore-not-found --timeout=2m --namespace "$each" deployment --selector app.kubernetes.io/name=millwright --cascade=foreground
  done
  kubectl delete --ignore-not-found --timeout=2m "${files[@]}"
  for each in "${farm_namespaces[@]}"; do remove_farm "$each"; done
  remove_farm_secret "$namespace" "$farm-ca"
  remove_namespace
  echo "The CRDs and all ${drained:+other }objects of our kinds are still there, and what was made for them runs on. Llamas are kept in"
  echo "LlamaRecords, and served again after the next deploy. To delete all that:"
  echo "  make uninstall${CLUSTER:+ CLUSTER=$CLUSTER}"
}

# remove_namespace unless another client has put something there.
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
