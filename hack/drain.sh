#!/usr/bin/env bash
# Sourced after target-cluster.sh by scripts that remove the controllers that our finalizers need.

# with_finalizer RESOURCE FINALIZER lists the objects with the finalizer, as "namespace name" or "name".
with_finalizer() {
  [ -n "$(kubectl get crd "$1" --ignore-not-found --output name)" ] || return 0
  kubectl get "$1" --all-namespaces --output go-template='{{range .items}}{{$meta := .metadata}}{{range .metadata.finalizers}}{{
    if eq . "'"$2"'"}}{{with $meta.namespace}}{{.}} {{end}}{{$meta.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# hooked KIND lists the CompositeControllers (KIND is compositecontroller) or DecoratorControllers with a finalize hook.
hooked() { with_finalizer "$1s.metacontroller.k8s.io" "millwright.dev/$1"; }

# kept lists the CompositeControllers and DecoratorControllers with a finalize hook.
kept() { hooked compositecontroller && hooked decoratorcontroller; }

# running lists the ActionSets whose run has not ended, or is not cleaned up.
running() { with_finalizer actionsets.cr.kanister.io millwright.dev/actionset; }

# drain removes all kinds of finalizers while the controllers run, and ends the script if that does not succeed.
drain() {
  drain_hooked compositecontroller CompositeController "parents and children"
  drain_hooked decoratorcontroller DecoratorController "targets and attachments"
  drain_actionsets
  retire_farm
}

# retire_farm deletes the APIService before its server or its records are deleted: while an APIService has no server, no namespace of the
# cluster can be deleted. The label selects ours: the tutorial's has the same name.
retire_farm() {
  local services=(apiservices.apiregistration.k8s.io --selector app.kubernetes.io/name=millwright)
  [ -z "$(kubectl get "${services[@]}" --ignore-not-found --output name)" ] || kubectl delete "${services[@]}" --timeout=2m
}

# drain_hooked LOWER KIND OBJECTS deletes those of a kind that have a finalize hook: without the engine neither they nor their objects could be
# deleted. It sets drained if there were any.
# shellcheck disable=SC2034 # drained
drain_hooked() {
  local list names resource=$1s.metacontroller.k8s.io
  list=$(hooked "$1")
  [ -n "$list" ] || return 0
  mapfile -t names <<<"$list"
  drained=yes
  echo "Deleting the $2s with a finalize hook, so that the engine removes its finalizers from them and from their ${3%% *}."
  echo "${3^} are kept, and no hook is called:"
  kubectl delete "$resource" --ignore-not-found --timeout=2m "${names[@]}" || {
    kubectl get "$resource" --output wide "${names[@]}" >&2 || true
    fail "" "They are not deleted after two minutes, so nothing else was removed: ${3%% *} with a finalizer could not be deleted any more." \
    "Check that an engine runs, and its log. If it lacks a right, the column REASON shows Forbidden:" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=engine --prefix" \
      "  kubectl describe $1s" \
      "If none runs, start one in another terminal, and then run this command again:" \
      "  bin/millwright controllers --controllers=$1 --kubeconfig ..." \
      "Without an engine, remove the finalizers with kubectl edit: metacontroller.io/$1-NAME from each of the ${3%% *}, and then" \
      "millwright.dev/$1 from the $2."
  }
}

# drain_actionsets cancels them: what runs is stopped, each deferPhase cleans up after its action, and the ActionSet is kept as a record. A
# phase has a minute to stop. A deferPhase has six to begin, five to run and one to stop. A clean-up that is refused is given up after five to six.
drain_actionsets() {
  local list namespace name deadline=$((SECONDS + 1140))
  list=$(running)
  [ -n "$list" ] || return 0
  echo "Cancelling the running ActionSets, so that their deferPhases clean up:"
  while read -r namespace name; do
    kubectl patch actionsets.cr.kanister.io --namespace "$namespace" "$name" --type=merge --patch '{"spec":{"cancel":true}}' || true # it may have gone
  done <<<"$list"
  while list=$(running) && [ -n "$list" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "" "After 19 minutes these ActionSets still wait for their controller, and could not be deleted without it:" "$list" \
    "Check that it runs, that it serves their namespaces (--namespace), and its log:" \
      "  kubectl logs --namespace millwright-system --selector app.kubernetes.io/component=actions --prefix" \
      "If none runs, start one in another terminal, and then run this command again:" \
      "  bin/millwright controllers --controllers=actionset --kubeconfig ..." \
      "Without one, remove the finalizer millwright.dev/actionset from them with kubectl edit, and delete the Pods that they have left:" \
      "  kubectl get pods --all-namespaces --selector millwright.dev/actionset-uid"
    sleep 1
  done
}
