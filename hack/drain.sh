#!/usr/bin/env bash
# Sourced after target-cluster.sh by scripts that remove what CompositeControllers need.

# kept lists the CompositeControllers that nobody but a running engine lets go: those with its finalizer.
kept() {
  [ -n "$(kubectl get crd compositecontrollers.metacontroller.k8s.io --ignore-not-found --output name)" ] || return 0
  kubectl get compositecontrollers.metacontroller.k8s.io --output go-template='{{range .items}}{{$name := .metadata.name}}{{range .metadata.finalizers}}{{
    if eq . "millwright.dev/compositecontroller"}}{{$name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# drain deletes them while the engine runs, and ends the script if that does not come to an end: without the engine neither they nor
# their parents could be deleted. It sets drained if there were any.
# shellcheck disable=SC2034 # drained
drain() {
  local list names
  list=$(kept)
  [ -n "$list" ] || return 0
  mapfile -t names <<<"$list"
  drained=yes
  echo "Deleting the CompositeControllers with a finalize hook, so that the engine takes its finalizers from them and from their parents."
  echo "Parents and children stay, and no hook is called:"
  kubectl delete compositecontrollers.metacontroller.k8s.io --ignore-not-found --timeout=2m "${names[@]}" || {
    kubectl get compositecontrollers.metacontroller.k8s.io --output wide "${names[@]}" >&2 || true
    fail "" "They are not gone after two minutes, and nothing else was removed: parents with a finalizer could not be deleted any more." \
      "Is an engine running, and what does it say? Where it lacks a right, the column REASON says Forbidden:" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=engine --prefix" \
      "  kubectl describe compositecontrollers" \
      "Start one if there is none, in another terminal, and then do the same again:" \
      "  bin/millwright controllers --controllers=compositecontroller --kubeconfig ..." \
      "Without an engine, take away by kubectl edit: from each of their parents the finalizer metacontroller.io/compositecontroller-NAME," \
      "and then from the CompositeController the finalizer millwright.dev/compositecontroller."
  }
}
