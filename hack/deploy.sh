#!/usr/bin/env bash
# deploy.sh WHAT: runs Millwright as Pods of the cluster that CLUSTER names (target-cluster.sh), with the image $IMG.
#   deploy    installs it, or updates it to this image and these manifests, and returns when all replicas are ready
#   undeploy  removes it, but not the CRDs, nor the objects of users, except CompositeControllers with a finalizer; running ActionSets
#             are cancelled (drain.sh). Llamas are kept as records, and are served again after the next deploy
#   bundle    writes all that deploy applies to $BUNDLE
# With FARM=tutorial, the API server of Llamas is in the namespace default, as in its tutorial: manifests/farm-tutorial describes what that
# implies. If it is in the other namespace, deploy moves it, without a request that fails, and removes what is left there.
# The local cluster needs a real node ("make cluster-node"), which gets the image from bin/image/image.tar. Other clusters pull it.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh
source hack/farm.sh

namespace=millwright-system
# What deploy installs and undeploy removes: not the CRDs, because the objects of users would be deleted with them.
installed=(manifests/[2-9][0-9]-*.yaml manifests/farm/[2-9][0-9]-*.yaml)
farm_namespace=$namespace
components=()
case ${FARM:-} in
'') ;;
tutorial)
  farm_namespace=default
  components=(manifests/farm-tutorial)
  ;;
*) fail "invalid FARM=$FARM: must be empty, for the API server of Llamas in namespace $namespace, or tutorial, for namespace default" ;;
esac

# render [PATCHES...]: prints manifests/ with the image and these patches.
render() {
  local overlay=$local_dir/deploy name=$IMG version=
  case $IMG in
  *@*) name=${IMG%%@*} version="digest: \"${IMG#*@}\"" ;;
  *:*)
    # A colon before the last slash belongs to a port.
    if [[ ${IMG##*/} == *:* ]]; then
      name=${IMG%:*} version="newTag: \"${IMG##*:}\""
    fi
    ;;
  esac
  [ -n "$version" ] || fail "invalid IMG=$IMG: must have a tag or a digest, for instance IMG=$IMG:v1.0.0"
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

# image_patch makes the local cluster run the image that was just built, also if it has the same tag as the running one.
image_patch() {
  cat <<EOF
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/template/metadata/annotations/millwright.dev~1image, value: "$(tar -xOf bin/image/image.tar index.json | cksum)"}
EOF
}

# bring_image loads the image into the local node, which cannot pull images.
bring_image() {
  require_node
  echo "Loading $IMG into the node"
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
  # After a client-side apply, and after the patch above, fields (also defaulted ones) have another field manager.
  [ -z "$former$tutorial" ] || kubectl apply --server-side --force-conflicts --selector "$farm_labels" -f "$work/all.yaml"
  kubectl apply --server-side -f "$work/all.yaml"
  # Earlier versions had it: it allowed phases to create Pods in the namespace of the operator, with its rights.
  kubectl delete rolebinding --namespace "$namespace" millwright-actions-application --ignore-not-found
  await_work
  await_farm || {
    kubectl describe apiservice "$farm_api" >&2
    fail "" "The servers of Llamas run, but kube-apiserver does not reach them, see above. No namespace can be deleted until it does, or until you run" \
      "  kubectl delete apiservice $farm_api"
  }
  local each
  for each in "${farm_namespaces[@]}"; do
    [ "$each" = "$farm_namespace" ] || remove_farm "$each"
  done
  remove_former_rights
  kubectl get pods --namespace "$namespace"
  [ "$farm_namespace" = "$namespace" ] || kubectl get pods --namespace "$farm_namespace" --selector app="$farm"
  echo
  echo "Millwright is ready. Try a sample, and look at its log:"
  [ -n "${CLUSTER:-}" ] || echo "  export KUBECONFIG=$(printf %q "$kubeconfig") PATH=$(printf %q "$PWD/bin"):\$PATH"
  echo "  kubectl apply -f $(printf %q "$PWD/manifests/samples/machine/machine-switches.yaml")"
  echo "  kubectl get machines,switches"
  echo "  kubectl logs --namespace $namespace --selector app.kubernetes.io/name=millwright --prefix"
}

# tutorials_farm prints the Deployment of the tutorial, if it is in the cluster, and ends the script unless ours is to replace it.
tutorials_farm() {
  local deployment
  deployment=$(kubectl get deployment --namespace default --selector "app=$farm,app.kubernetes.io/name!=millwright" --output name)
  [ -n "$deployment" ] || return 0
  [ "$farm_namespace" = default ] || fail "Namespace default has the farm-operator of the tutorial. Nothing was changed. Either replace it there" \
  "(manifests/farm-tutorial/kustomization.yaml describes what that implies):" \
    "  make deploy FARM=tutorial${CLUSTER:+ CLUSTER=$CLUSTER}" \
    "or remove it first, with its manifest: kubectl delete -f app.yaml"
  echo "Taking over Deployment $farm in namespace default, and what belongs to it" >&2
  echo "$deployment"
}

# await_work returns when all replicas of all Deployments are ready.
await_work() {
  await_rollout "$namespace"
  [ "$farm_namespace" = "$namespace" ] || await_rollout "$farm_namespace" "$farm"
}

# await_rollout NAMESPACE [DEPLOYMENT]: waits for one Deployment, or for all.
await_rollout() {
  kubectl rollout status --namespace "$1" --timeout=3m deployment "${@:2}" && return
  kubectl describe pods --namespace "$1" --selector app.kubernetes.io/name=millwright >&2
  fail "" "Millwright is not ready after 3 minutes. The status of its Pods is above. To see their logs:" \
    "  kubectl logs --namespace $1 --selector app.kubernetes.io/name=millwright --prefix"
}

# require_no_make_run ends the script while make run serves Llamas in this cluster: nothing is deployed then that could be removed.
require_no_make_run() {
  local type
  [ -n "$(kubectl get apiservices.apiregistration.k8s.io "$farm_api" --ignore-not-found --output name)" ] || return 0
  type=$(kubectl get service --namespace "$namespace" "$farm" --ignore-not-found --output 'jsonpath={.spec.type}')
  [ "$type" != ExternalName ] || fail "make run serves Llamas and FarmPods in this cluster, from its own process. Stop it with Ctrl-C first." \
    "If it was killed, start it once more, and stop it."
}

undeploy() {
  local files=() file
  require_no_make_run
  for file in "${installed[@]}"; do files+=(--filename "$file"); done
  drain
  # First the Deployments: they need their rights until they have ended.
  local each
  for each in "$namespace" default; do
    kubectl delete --ignore-not-found --timeout=2m --namespace "$each" deployment --selector app.kubernetes.io/name=millwright --cascade=foreground
  done
  kubectl delete --ignore-not-found --timeout=2m "${files[@]}"
  for each in "${farm_namespaces[@]}"; do remove_farm "$each"; done
  remove_farm_secret "$namespace" "$farm-ca"
  remove_namespace
  echo "The CRDs and all ${drained:+other }objects of our kinds were kept, and what was created for them keeps running. Llamas are kept in"
  echo "LlamaRecords, and are served again after the next deploy. To delete all of them:"
  echo "  make uninstall${CLUSTER:+ CLUSTER=$CLUSTER}"
}

# remove_namespace removes it, unless other clients have created objects there.
remove_namespace() {
  local others kinds
  [ -n "$(kubectl get namespace "$namespace" --ignore-not-found --output name)" ] || return 0
  kinds=$(kubectl api-resources --namespaced --verbs=list --output name | grep -vE '^(events|events\.events\.k8s\.io|leases\..*|endpoints|endpointslices\..*|podmetrics\..*)$' | paste -sd ,)
  others=$(kubectl get "$kinds" --namespace "$namespace" --ignore-not-found --output name |
    grep -vxE 'configmap/kube-root-ca\.crt|serviceaccount/default' || true)
  if [ -n "$others" ]; then
    printf '%s\n' "Namespace $namespace was kept, because it has objects that Millwright did not create:" "$others"
    return
  fi
  kubectl delete --timeout=2m namespace "$namespace"
}

bundle() {
  render >"$work/all.yaml"
  mkdir -p "$(dirname "$BUNDLE")"
  mv "$work/all.yaml" "$BUNDLE"
  echo "Wrote all of Millwright, with the image $IMG, to $BUNDLE. To install it: kubectl apply --server-side -f $BUNDLE"
}

case ${1:-} in
deploy | undeploy)
  require_cluster
  "$1"
  ;;
bundle) bundle ;;
*) fail "deploy.sh: invalid argument \"${1:-}\": must be deploy, undeploy or bundle" ;;
esac
