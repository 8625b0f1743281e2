#!/usr/bin/env bash
# Sourced after target-cluster.sh by scripts that install the API server of Llamas: where it is, and how it moves from one namespace to another.
# shellcheck disable=SC2034 # the variables are for those scripts

farm=farm-operator
farm_api=v1alpha.farm.example.com
farm_port=3000
farm_labels=app.kubernetes.io/name=millwright,app.kubernetes.io/component=farm
# The default namespace, and that of the tutorial, which was the default of an earlier version.
farm_namespaces=(millwright-system default)

# former_farm NAMESPACE prints the namespace from which an API server of ours is to move there; nothing if none is.
former_farm() {
  local former
  former=$(kubectl get apiservices.apiregistration.k8s.io --selector "$farm_labels" --output 'jsonpath={.items[*].spec.service.namespace}')
  [ "$former" = "$1" ] || echo "$former"
}

# both_farms FORMER NAMESPACE prints patches for kustomize: the servers of both namespaces have all rights, and the APIService is left out.
both_farms() {
  local account=system:serviceaccount
  cat <<EOF
- target: {kind: APIService, name: $farm_api}
  patch: |-
    \$patch: delete
    apiVersion: apiregistration.k8s.io/v1
    kind: APIService
    metadata: {name: $farm_api}
- target: {kind: (ClusterRoleBinding|RoleBinding), name: $farm(|-server|-auth-delegator|-authentication-reader)}
  patch: |-
    - {op: add, path: /subjects/-, value: {kind: ServiceAccount, name: $farm, namespace: $1}}
- target: {kind: ValidatingAdmissionPolicy, name: $farm-records}
  patch: |-
    - {op: test, path: /spec/variables/0/name, value: server}
    - op: replace
      path: /spec/variables/0/expression
      value: "request.userInfo.username == '$account:$1:$farm' ? request.userInfo.username : '$account:$2:$farm'"
EOF
}

# switch_farm NAMESPACE makes kube-apiserver send requests to the servers there, and trust them, in one write, so that no request fails.
switch_farm() {
  local bundle
  bundle=$(kubectl get secret --namespace "$1" "$farm-serving" --output 'jsonpath={.data.ca\.crt}')
  [ -n "$bundle" ] || fail "Secret $farm-serving in namespace $1 has no ca.crt: does it belong to another owner? The API server of Llamas was not moved."
  kubectl patch apiservices.apiregistration.k8s.io "$farm_api" --type=merge \
    --patch '{"spec":{"insecureSkipTLSVerify":false,"service":{"namespace":"'"$1"'","name":"'"$farm"'","port":'"$farm_port"'},"caBundle":"'"$bundle"'"}}'
}

# await_farm waits until kubectl can use the API, or fails after two minutes with the reason: kube-apiserver reads its resources after it has found it
# available, and again with a growing delay if the servers did not answer before.
await_farm() {
  local group=${farm_api#*.} limit
  kubectl wait --for=condition=Available --timeout=1m "apiservice/$farm_api" || return 1
  limit=$((SECONDS + 60))
  until [[ $(kubectl api-resources --api-group="$group" --output=name 2>/dev/null) = *"llamas.$group"* ]]; do
    [ "$SECONDS" -lt "$limit" ] || {
      echo "kube-apiserver finds $farm_api available, but does not list its resources:" >&2
      kubectl api-resources --api-group="$group" >&2
      return 1
    }
    sleep 0.2
  done
}

# remove_farm NAMESPACE removes our API server of Llamas from the namespace. In an earlier version, the key that signed its certificate was
# there, too.
remove_farm() {
  local kinds=deployments,services,poddisruptionbudgets,networkpolicies,serviceaccounts,roles,rolebindings
  if [ -n "$(kubectl get "$kinds" --namespace "$1" --selector "$farm_labels" --ignore-not-found --output name)" ]; then
    kubectl delete "$kinds" --namespace "$1" --selector "$farm_labels" --ignore-not-found --timeout=2m --cascade=foreground
  fi
  remove_farm_secret "$1" "$farm-serving"
  [ "$1" != default ] || remove_former_rights
  if [ -n "$(kubectl get crd servicemonitors.monitoring.coreos.com --ignore-not-found --output name)" ]; then
    kubectl delete servicemonitors.monitoring.coreos.com --namespace "$1" --field-selector "metadata.name=$farm" --selector app.kubernetes.io/name=millwright --ignore-not-found >/dev/null
  fi
}

# remove_former_rights removes the rights that millwright-core had in the namespace default in an earlier version.
remove_former_rights() {
  kubectl delete roles,rolebindings --namespace default --field-selector metadata.name=millwright-core --ignore-not-found >/dev/null
}

# remove_farm_secret NAMESPACE NAME removes the Secret if it is ours.
remove_farm_secret() {
  local secret=(--namespace "$1" secrets --selector app.kubernetes.io/managed-by=millwright --field-selector "metadata.name=$2")
  [ -z "$(kubectl get "${secret[@]}" --ignore-not-found --output name)" ] || kubectl delete "${secret[@]}" --ignore-not-found --timeout=2m
}
