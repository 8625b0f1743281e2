#!/usr/bin/env bash
# Sourced after target-cluster.sh by scripts that remove what objects with a finalizer of ours need.

# with_finalizer RESOURCE FINALIZER lists the objects, as "namespace name" or "name", from which only a running controller removes it.
with_finalizer() {
  [ -n "$(kubectl get crd "$1" --ignore-not-found --output name)" ] || return 0
  kubectl get "$1" --all-namespaces --output go-template='{{range .items}}{{$meta := .metadata}}{{range .metadata.finalizers}}{{
    if eq . "'"$2"'"}}{{with $meta.namespace}}{{.}} {{end}}{{$meta.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# kept lists the CompositeControllers with a finalize hook.
kept() { with_finalizer compositecontrollers.metacontroller.k8s.io millwright.dev/compositecontroller; }

# running lists the ActionSets in the middle of a run that has to be cleaned up after.
running() { with_finalizer actionsets.cr.kanister.io millwright.dev/actionset; }

# drain lets both go while their controllers run, and ends the script if that does not come to an end.
drain() {
  drain_compositecontrollers
  drain_actionsets
  retire_farm
}

# retire_farm before its server or its records go: as long as there is an APIService without a server, no namespace of the cluster
# can be deleted. It is ours by its label: the tutorial's has the same name.
retire_farm() {
  local services=(apiservices.apiregistration.k8s.io --selector app.kubernetes.io/name=millwright)
  [ -z "$(kubectl get "${services[@]}" --ignore-not-found --output name)" ] || kubectl delete "${services[@]}" --timeout=2m
}

# drain_compositecontrollers deletes them: without the engine neither they nor their parents could be deleted. It sets drained if there
# were any.
# shellcheck disable=SC2034 # drained
drain_compositecontrollers() {
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

# drain_actionsets cancels them: what runs is stopped, each deferPhase puts right what its action has begun, and the ActionSet stays as a
# record of it. A phase has a minute to stop, and a deferPhase five.
drain_actionsets() {
  local list namespace name deadline=$((SECONDS + 420))
  list=$(running)
  [ -n "$list" ] || return 0
  echo "Cancelling the ActionSets that run, so that nothing is left half done:"
  while read -r namespace name; do
    kubectl patch actionsets.cr.kanister.io --namespace "$namespace" "$name" --type=merge --patch '{"spec":{"cancel":true}}' || true # it may have gone
  done <<<"$list"
  while list=$(running) && [ -n "$list" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "" "After seven minutes these still wait for their controller, and could not be deleted without it:" "$list" \
      "Is it running, does it serve their namespaces (--namespace), and what does it say?" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=actions --prefix" \
      "Start one if there is none, in another terminal, and then do the same again:" \
      "  bin/millwright controllers --controllers=actionset --kubeconfig ..." \
      "Without one, take the finalizer millwright.dev/actionset away from them by kubectl edit, and delete by hand the Pods that they have left:" \
      "  kubectl get pods --all-namespaces --selector millwright.dev/actionset-uid"
    sleep 1
  done
}
