#!/usr/bin/env bash
# Sourced, with $work being a directory of the script's own, by scripts that work on a cluster. CLUSTER selects it:
#   (empty)   the local one of "make run" and "make cluster"
#   current   the one of the kubeconfig's current context
# It sets kubeconfig (a file) and defines kubectl (for that cluster). Nothing else selects a cluster, in particular not the variable
# KUBECONFIG.
# shellcheck disable=SC2154 # work

# The state of the local cluster, and the logs. A test has its own.
mkdir -p "${MILLWRIGHT_LOCAL_DIR:-.local}"
local_dir=$(cd "${MILLWRIGHT_LOCAL_DIR:-.local}" && pwd)
cluster_dir=$local_dir/cluster

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# missing_kubeconfigs prints which file is missing, if no file of KUBECONFIG exists: kubectl ignores those, and reports only that there is no context.
missing_kubeconfigs() {
  local files file
  IFS=: read -ra files <<<"${KUBECONFIG:-}"
  [ "${#files[@]}" -gt 0 ] || return
  for file in "${files[@]}"; do
    [ ! -e "$file" ] || return
  done
  echo "error: stat $file: no such file or directory"
}

case ${CLUSTER:-} in
'')
  unset KUBECONFIG
  kubectl_binary=$PWD/bin/kubectl
  [ -x "$kubectl_binary" ] || fail "bin/kubectl is missing. Run: make bin/cluster (the first time it takes minutes)"
  kubeconfig=$cluster_dir/admin.kubeconfig
  hint="Start the local cluster in another terminal: make cluster, or make run with the controllers."
  ;;
current)
  kubectl_binary=$(command -v kubectl || echo "$PWD/bin/kubectl")
  [ -x "$kubectl_binary" ] || fail "kubectl is missing. Install it, or run: make bin/cluster (it takes minutes)"
  context=$("$kubectl_binary" config current-context 2>"$work/error") || {
    ! missing=$(missing_kubeconfigs) ||
      fail "$missing" "CLUSTER=current is the current context of KUBECONFIG. Set it to a file that exists, or unset it to use ~/.kube/config: unset KUBECONFIG"
    fail "$(cat "$work/error")" "CLUSTER=current is the current context of ${KUBECONFIG:-~/.kube/config}. Choose one: kubectl config use-context NAME"
  }
  # A copy, so that a later change of the context does not change the cluster.
  kubeconfig=$work/kubeconfig
  (umask 077 && "$kubectl_binary" config view --minify --flatten --raw >"$kubeconfig") ||
    fail "CLUSTER=current: the context $context is incomplete, see above."
  unset KUBECONFIG
  server=$("$kubectl_binary" --kubeconfig "$kubeconfig" config view -o 'jsonpath={.clusters[0].cluster.server}')
  hint="That is the server of context $context."
  echo "Context $context, server $server"
  ;;
*)
  fail "invalid CLUSTER=$CLUSTER: must be empty, for the local cluster, or current, for the kubeconfig's current context"
  ;;
esac

# A discovery cache of its own: otherwise the user's own kubectl would not find a kind that we install for some minutes.
kubectl_command=(env "KUBECACHEDIR=$work/kubectl" "$kubectl_binary" --kubeconfig "$kubeconfig")

# Descriptors 8 and 9 are the leash of run.sh, which other processes must not hold open.
kubectl() {
  "${kubectl_command[@]}" "$@" 8<&- 9>&-
}

# require_cluster ends the script if the API server does not answer.
require_cluster() {
  kubectl get --request-timeout=10s --raw /version >/dev/null 2>"$work/error" || fail "$(cat "$work/error")" "$hint"
}

# require_node ends the script if the local cluster has no node on which Pods run as containers.
require_node() {
  [ -n "$(kubectl get nodes --selector type=real --output name)" ] ||
    fail "The local cluster has no real node for Pods to run on. Stop it, and start in another terminal: make cluster-node"
}

# deleted_crds prints our CRDs that are being deleted: they are gone once the controllers have removed the finalizers of their objects.
deleted_crds() {
  kubectl get -f manifests/00-crds --ignore-not-found --output \
    'jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{"customresourcedefinition/"}{.metadata.name}{"\n"}{end}'
}

# install_crds installs the CRDs and returns when the API server serves them. --server-side is needed because their schemas are larger than
# the annotation of a client-side apply. In the local cluster they become those of this version, whatever was edited there.
install_crds() {
  local attempt conflicts=()
  [ -n "${CLUSTER:-}" ] || conflicts=(--force-conflicts)
  kubectl apply --server-side "${conflicts[@]}" -f manifests/00-crds
  for attempt in 1 2 3 4 5; do
    if kubectl wait --for=condition=Established --timeout=60s -f manifests/00-crds >"$work/established" 2>&1; then
      return
    fi
    # kubectl waits for a condition to come true, but not for an object to have conditions at all.
    grep -q 'conditions accessor error' "$work/established" || break
    sleep "0.$attempt"
  done
  fail "The CRDs are installed, but the API server does not serve them:" "$(cat "$work/established")"
}
