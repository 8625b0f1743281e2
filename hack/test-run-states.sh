#!/usr/bin/env bash
# Sourced by test-run.sh: states in which users leave the cluster, and what make run has to show on each when it is started again. A state NAME
# is left by leave_NAME while make run runs; expect_NAME checks the next run.

leave() {
  local state
  for state in "$@"; do
    echo "== leaving: $state"
    "leave_$state"
  done
}

expect() {
  local state
  for state in "$@"; do
    "expect_$state"
    echo "== went on from: $state"
  done
}

# What make run itself advises.
leave_suspended() {
  kubectl patch ic web --type=merge -p '{"spec":{"suspend":true}}'
  kubectl wait --for=delete --timeout="${patience}s" pod/web-immortalpod
}
expect_suspended() {
  prints '^ImmortalContainer web is not Ready: Suspended' || fail "it does not print why web is not Ready"
  kubectl patch ic web --type=merge -p '{"spec":{"suspend":false}}'
  kubectl wait --for=condition=Ready --timeout="${patience}s" ic/web
}

leave_sample_deleted() { kubectl delete ha hello; }
expect_sample_deleted() { kubectl wait --for=condition=Ready --timeout="${patience}s" ha/hello; }

leave_llama_deleted() { kubectl delete llama dolly; }
expect_llama_deleted() { prints '^dolly +31.4 +0.5 ' || fail "the Llama is not there"; }

leave_controller_edited() {
  kubectl patch compositecontroller greeting --type=merge -p '{"spec":{"hooks":{"sync":{"webhook":{"url":"http://127.0.0.1:1/sync"}}}}}'
}
expect_controller_edited() { kubectl wait --for=condition=Ready --timeout="${patience}s" compositecontroller/greeting; }

leave_crd_edited() {
  kubectl patch crd immortalcontainers.immortalcontainers.flugel.it --field-manager=kubectl-edit --type=merge -p '{"spec":{"names":{"shortNames":["other"]}}}'
}
expect_crd_edited() {
  [ "$(kubectl get crd immortalcontainers.immortalcontainers.flugel.it --output 'jsonpath={.spec.names.shortNames[*]}')" = ic ] || fail "the edited CRD is not as in the manifests"
}

# It stays until its APIService is gone.
leave_namespace_deleted() { kubectl delete namespace millwright-system --wait=false; }
expect_namespace_deleted() {
  [ "$(kubectl get namespace millwright-system --output 'jsonpath={.status.phase}')" = Active ] || fail "the namespace millwright-system is not there"
}

leave_node_cordoned() { kubectl cordon --selector type=simulated; }
expect_node_cordoned() { kubectl uncordon --selector type=simulated; }

leave_quota() { kubectl create quota none --hard=pods=0; }
expect_quota() { kubectl delete quota none; }

# A Pod that no controller owns has the name of the sample's Pod.
leave_foreign_pod() {
  kubectl delete ic web
  kubectl wait --for=delete --timeout="${patience}s" pod/web-immortalpod
  kubectl run web-immortalpod --image=nginx
}
expect_foreign_pod() {
  prints '^ImmortalContainer web is not Ready: ' || fail "it does not print that web is not Ready, whose Pod is of another owner"
  kubectl delete pod web-immortalpod
  kubectl wait --for=condition=Ready --timeout="${patience}s" ic/web
}

leave_sample_terminating() {
  kubectl patch ha hello --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'
  kubectl delete ha hello --wait=false
}
expect_sample_terminating() { kubectl patch ha hello --type=merge -p '{"metadata":{"finalizers":null}}'; }

# As after a make uninstall that was interrupted.
leave_crd_terminating() {
  kubectl patch machine panel --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'
  kubectl delete --wait=false crd machines.useless.container.training
}
expect_crd_terminating() {
  prints '^They still have objects with finalizers' || fail "it does not print which CRDs are still being deleted"
  kubectl patch machine panel --type=merge -p '{"metadata":{"finalizers":null}}'
  kubectl wait --for=delete --timeout="${patience}s" crd/machines.useless.container.training
}

# A webhook without a server refuses all Pods.
leave_webhook() {
  kubectl apply -f - <<'YAML'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: absent}
webhooks:
- name: absent.example.com
  clientConfig: {service: {namespace: default, name: absent}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  admissionReviewVersions: [v1]
  sideEffects: None
YAML
}
expect_webhook() { kubectl delete validatingwebhookconfiguration absent; }

# The operator was deployed into the local cluster, and a CRD is missing: the Machine's, see above.
leave_deployed() {
  kubectl apply --server-side --force-conflicts -k manifests
  kubectl apply --server-side --force-conflicts -k manifests/farm
}
expect_deployed() {
  prints '^dolly +31.4 +0.5 ' || fail "the Llama is not there after the operator was deployed"
  kubectl wait --for=condition=Ready --timeout="${patience}s" machine/panel ic/web ha/hello
}

leave_kubeconfig_lost() { cp "$KUBECONFIG" "$work/kubeconfig" && rm "$KUBECONFIG" && export KUBECONFIG=$work/kubeconfig; }
expect_kubeconfig_lost() { try 'export KUBECONFIG=' && kubectl get nodes; }
