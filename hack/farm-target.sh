#!/usr/bin/env bash
# Sourced by run-farm.sh: whether the API server of Llamas runs on this machine, and where kube-apiserver reaches it.
#
# The local cluster reaches it on loopback. For a cluster of yours, set FARM_ADDRESS to the address of this machine as its kube-apiserver
# reaches it: localhost for one that runs directly on this machine, the gateway of its network for one in containers here, and this machine's
# address in your network for another one. The server then listens on all addresses, with a certificate, and admits only who kube-apiserver
# admits.
# shellcheck disable=SC2154 # work, farm, farm_api, farm_namespace, context

farm_address=${FARM_ADDRESS:-localhost}
if [ -n "${FARM_ADDRESS:-}" ]; then
  [ "${CLUSTER:-}" = current ] || fail "FARM_ADDRESS is for CLUSTER=current: the local cluster reaches this machine anyway."
  [[ $FARM_ADDRESS =~ ^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$ ]] ||
    fail "invalid FARM_ADDRESS=$FARM_ADDRESS: must be a host name or an IPv4 address of this machine, without a port"
fi

# farm_wanted reports whether the server is to run.
farm_wanted() { [ -z "${CLUSTER:-}" ] || [ -n "${FARM_ADDRESS:-}" ]; }

# farm_bind_address prints the address to listen on.
farm_bind_address() {
  case $farm_address in
  localhost) echo 127.0.0.1 ;;
  127.*) echo "$farm_address" ;;
  *) echo 0.0.0.0 ;;
  esac
}

# require_own_farm ends the script if the cluster has an API server of Llamas that this script has not started: it is not replaced.
require_own_farm() {
  [ "${CLUSTER:-}" = current ] || return 0
  local service type=
  service=$(kubectl get apiservices.apiregistration.k8s.io "$farm_api" --ignore-not-found --output 'jsonpath={.spec.service.namespace}')
  type=$(kubectl get service --namespace "$farm_namespace" "$farm" --ignore-not-found --output 'jsonpath={.spec.type}')
  if [ "${service:-$farm_namespace}" != "$farm_namespace" ] || [ "${type:-ExternalName}" != ExternalName ]; then
    fail "Context $context has an API server of Llamas already, in the namespace ${service:-$farm_namespace}." \
      "Run make run CLUSTER=current without FARM_ADDRESS, or remove that server first: make undeploy CLUSTER=current"
  fi
}

# print_ways_to_have_the_farm is for a cluster of yours without it.
print_ways_to_have_the_farm() {
  cat <<EOF
There are no Llamas and FarmPods: the cluster would have to reach an API server on this machine. Two ways to have them:
  make run CLUSTER=current FARM_ADDRESS=HOST    # HOST: this machine, as the cluster's kube-apiserver reaches it
  make deploy CLUSTER=current                   # all of Millwright in the cluster, with the image IMG
EOF
}
