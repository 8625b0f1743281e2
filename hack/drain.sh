#!/usr/bin/env bash
# Sourced after target-cluster.sh by scripts that remove the controllers that our finalizers need.

# with_finalizer RESOURCE FINALIZER lists the objects with the finalizer, as "namespace name" or "name".
with_finalizer() {
  [ -n "$(kubectl get crd "$1" --ignore-not-found --output name)" ] || return 0
  kubectl get "$1" --all-namespaces --output go-template='{{range .items}}{{$meta := .metadata}}{{range .metadata.finalizers}}{{
    if eq . "'"$2"'"}}{{with $meta.namespace}}{{.}} {{end}}{{$meta.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# kept lists the CompositeControllers with a finalize hook.
kept() { with_finalizer compositecontrollers.metacontroller.k8s.io millwright.dev/compositecontroller; }

# running lists the ActionSets whose run has not ended.
running() { with_finalizer actionsets.cr.kanister.io millwright.dev/actionset; }

# drain removes both kinds of finalizers while the controllers run, and ends the script if that does not succeed.
drain() {
  drain_compositecontrollers
  drain_actionsets
  retire_farm
}

# retire_farm deletes the APIService before its server or its records are deleted: while an APIService has no server, no namespace of the
# cluster can be deleted. The label selects ours: the tutorial's has the same name.
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
  echo "Deleting the CompositeControllers with a finalize hook, so that the engine removes its finalizers from them and from their parents."
  echo "Parents and children are kept, and no hook is called:"
  kubectl delete compositecontrollers.metacontroller.k8s.io --ignore-not-found --timeout=2m "${names[@]}" || {
    kubectl get compositecontrollers.metacontroller.k8s.io --output wide "${names[@]}" >&2 || true
    fail "" "They are not deleted after two minutes, so nothing else was removed: parents with a finalizer could not be deleted any more." \
    "Check that an engine runs, and its log. If it lacks a right, the column REASON shows Forbidden:" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=engine --prefix" \
      "  kubectl describe compositecontrollers" \
      "If none runs, start one in another terminal, and then run this command again:" \
      "  bin/millwright controllers --controllers=compositecontroller --kubeconfig ..." \
      "Without an engine, remove the finalizers with kubectl edit: metacontroller.io/compositecontroller-NAME from each of the parents, and then" \
      "millwright.dev/compositecontroller from the CompositeController."
  }
}

# drain_actionsets cancels them: what runs is stopped, each deferPhase cleans up after its action, and the ActionSet is kept as a record. A
# phase has a minute to stop, and a deferPhase five.
drain_actionsets() {
  local list namespace name deadline=$((SECONDS + 420))
  list=$(running)
  [ -n "$list" ] || return 0
  echo "Cancelling the running ActionSets, so that their deferPhases clean up:"
  while read -r namespace name; do
    kubectl patch actionsets.cr.kanister.io --namespace "$namespace" "$name" --type=merge --patch '{"spec":{"cancel":true}}' || true # it may have gone
  done <<<"$list"
  while list=$(running) && [ -n "$list" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "" "After seven minutes these ActionSets still wait for their controller, and could not be deleted without it:" "$list" \
    "Check that it runs, that it serves their namespaces (--namespace), and its log:" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=actions --prefix" \
      "If none runs, start one in another terminal, and then run this command again:" \
      "  bin/millwright controllers --controllers=actionset --kubeconfig ..." \
      "Without one, remove the finalizer millwright.dev/actionset from them with kubectl edit, and delete the Pods that they have left:" \
      "  kubectl get pods --all-namespaces --selector millwright.dev/actionset-uid"
    sleep 1
  done
}
