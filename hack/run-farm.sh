#!/usr/bin/env bash
# Sourced by run.sh: the API server of Llamas and FarmPods, next to the cluster. A Service of type ExternalName refers to this machine, so that
# kube-apiserver passes on requests for its API. It impersonates its ServiceAccount, and so has the rights that it has in a Pod.
# shellcheck disable=SC2154 # work, local_dir, kubeconfig, samples_dir, port

source hack/farm.sh
farm_namespace=millwright-system
farm_account=system:serviceaccount:$farm_namespace:$farm
farm_log=$local_dir/millwright-apiserver${CLUSTER:+-$CLUSTER}.log
source hack/farm-target.sh

# forget_farm deletes the APIService after its server has ended, and before another one starts: without a server, kubectl reports errors and no
# namespace can be deleted. Llamas are kept in records.
forget_farm() {
  farm_wanted && { [ -z "${CLUSTER:-}" ] || [ -e "$work/farm" ]; } || return 0
  kubectl delete --request-timeout=5s --raw "/apis/apiregistration.k8s.io/v1/apiservices/$farm_api" >/dev/null 2>&1 || true
}

# await_namespace waits until the namespace is deleted, if that has begun: nothing can be created in it.
await_namespace() {
  [ -n "$(kubectl get namespace "$farm_namespace" --ignore-not-found --output 'jsonpath={.metadata.deletionTimestamp}')" ] || return 0
  echo "Waiting until the namespace $farm_namespace is deleted, to create it again"
  kubectl wait --for=delete --timeout=1m "namespace/$farm_namespace" >/dev/null || {
    kubectl describe namespace "$farm_namespace" >&2
    fail "" "The namespace $farm_namespace is not deleted after a minute: see its conditions above for what is left in it. To start from nothing: make clean."
  }
}

# start_farm returns when the API is served. The controllers have to run: they create its certificate, once there is an APIService.
start_farm() {
  echo "Starting the API server of Llamas and FarmPods"
  require_own_farm
  touch "$work/farm"
  # The state of a local cluster may be that of an earlier version, which had everything in the namespace default.
  [ -z "$(kubectl get secret --namespace default "$farm-serving" --ignore-not-found --output 'jsonpath={.data.ca\.key}')" ] || remove_farm default >/dev/null
  await_namespace
  kubectl apply --server-side --force-conflicts -f manifests/10-namespace.yaml -f manifests/farm/20-account.yaml -f manifests/farm/21-role.yaml -f manifests/farm/22-users.yaml \
    -f manifests/farm/23-policy.yaml -f manifests/farm/40-apiservice.yaml -f - >/dev/null <<YAML
apiVersion: v1
kind: Service
metadata: {name: $farm, namespace: $farm_namespace}
spec: {type: ExternalName, externalName: $farm_address}
YAML
  (umask 077 && cp "$kubeconfig" "$work/apiserver.kubeconfig")
  kubectl config --kubeconfig "$work/apiserver.kubeconfig" set "users.$(kubectl config view -o 'jsonpath={.users[0].name}').act-as" "$farm_account" >/dev/null
  leashed "API server" "$farm_log" bin/millwright apiserver --kubeconfig "$work/apiserver.kubeconfig" --bind-address "$(farm_bind_address)" --secure-port 0 \
    --serving-secret "$farm_namespace/$farm-serving" --shutdown-delay-duration 0s
  await_port 'Serving securely on [^ ]*:([0-9]+)'
  kubectl patch apiservice "$farm_api" --type=merge --patch '{"spec":{"service":{"port":'"$port"'}}}' >/dev/null
  await_farm >/dev/null || {
    kubectl describe apiservice "$farm_api" >&2
    fail "" "The API of Llamas is not served. The log of its server is $farm_log." \
      "kube-apiserver has to reach it at $farm_address, port $port: is that this machine, and does a firewall let it through?"
  }
}

# show_farm shows the first steps with it.
show_farm() {
  apply_absent "$samples_dir/llama/llama.yaml" || true
  show get llamas || true
  show describe llama dolly || true
  show get farmpods || true
}

print_what_to_try_on_the_farm() {
  cat <<YAML

  kubectl explain llama.spec                                         # Llamas and FarmPods have no CRDs: our own API server serves them
  kubectl patch llama dolly --type=merge -p '{"spec":{"weight":35}}'
  kubectl get farmpods --all-namespaces --watch
YAML
}
