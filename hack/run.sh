#!/usr/bin/env bash
# run.sh: runs all of Millwright on this machine, or with CLUSTER=current against a cluster of yours (target-cluster.sh): CRDs,
# controllers, API server and samples, and then shows what a user would look at. It runs until Ctrl-C. "make run" builds what it needs.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

# A command in the background of a script ignores SIGINT, and bash cannot trap a signal that it ignored from the start.
if [ -n "$(trap -p INT)" ] && env --default-signal=INT true 2>/dev/null; then
  exec env --default-signal=INT "$0" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh
source hack/run-processes.sh
source hack/run-samples.sh
source hack/run-farm.sh
source hack/run-hook.sh

log=$local_dir/millwright${CLUSTER:+-$CLUSTER}.log

print_what_is_kept() {
  if [ "${CLUSTER:-}" = current ]; then
    echo "The CRDs and the samples were kept in context $context. To remove them, and every object of our kinds there:"
    echo "  kubectl delete ${samples[*]}"
    echo "  make uninstall CLUSTER=current"
    [ -z "$(kept)" ] || printf '%s\n' "Do that while make run CLUSTER=current runs: without it, these CompositeControllers and DecoratorControllers could not be deleted:" "$(kept)"
    [ -z "$(running)" ] || printf '%s\n' "These ActionSets have not ended, and continue with the next make run CLUSTER=current:" "$(running)"
  else
    echo "The state is kept in $cluster_dir: make run continues with it, make clean removes it."
  fi
}

# show ARGUMENTS...: prints a kubectl command, so that it can be copied, and its output.
show() {
  local argument
  printf '\n$ kubectl'
  for argument in "$@"; do
    [[ $argument =~ ^[[:alnum:]_./:=,-]+$ ]] || argument="'$argument'"
    printf ' %s' "$argument"
  done
  echo
  kubectl "$@"
}

start_control_plane() {
  ! bin/cluster wait --dir "$cluster_dir" --timeout 1ms >/dev/null 2>&1 ||
    fail "The local cluster is running already: stop that make run or make cluster first, with Ctrl-C in its terminal."
  echo "Starting the control plane"
  touch "$work/before"
  leashed "control plane" "$local_dir/cluster.out" bin/cluster up --dir "$cluster_dir" --simulated-nodes 1
  # A run that was killed may have left an old file.
  until [ "$cluster_dir/ready" -nt "$work/before" ]; do
    keep_running
    sleep 0.1
  done
  echo "It is ready at $(cat "$cluster_dir/ready")"
}

start_controllers() {
  echo "Starting the controllers"
  local flags=(--kubeconfig "$kubeconfig" --serving-address 127.0.0.1:0)
  # Processes that a developer starts next to these stand by. The local cluster has one make run at a time, so that its controllers lead again
  # after a kill -9 without waiting until their Lease expires. So it may be long, for a machine that is slow for a while.
  [ "${CLUSTER:-}" = current ] ||
    flags+=(--leader-elect-identity make-run --leader-elect-lease-duration 60s --leader-elect-renew-deadline 50s)
  leashed controllers "$log" bin/millwright controllers "${flags[@]}"
}

# install_deleted_crds installs the CRDs again that were being deleted when this script began, as after a make uninstall that was interrupted.
install_deleted_crds() {
  local deleted
  mapfile -t deleted < <(deleted_crds)
  [ "${#deleted[@]}" -gt 0 ] || return 0
  echo "Waiting until these CRDs are deleted, to install them again: ${deleted[*]}"
  if kubectl wait --for=delete --timeout=20s "${deleted[@]}" >/dev/null; then
    install_crds
  else
    echo "They still have objects with finalizers, and no new object of these kinds can be created. Remove the finalizers, and run make run again."
  fi
}

# show_result shows what there is. That an object was deleted by a user is reported by kubectl, and is no failure.
show_result() {
  show get immortalcontainers,helloapps,machines,switches || true
  show get deployments,pods || true
  show describe ic web || true
}

print_what_to_try() {
  local where=$log
  echo
  echo "----------------------------------------------------------------------------------------------------"
  if [ "${CLUSTER:-}" = current ]; then
    echo "Millwright runs against context $context."
    farm_wanted || print_ways_to_have_the_farm
    echo "Try, in another terminal:"
    echo
  else
    where="$log, $farm_log, $hook_log, $cluster_dir/log/cluster.log"
    echo "Millwright runs, on a real API server. The node is simulated: Pods run there without containers."
    echo "Try, in another terminal:"
    echo
    echo "  export KUBECONFIG=$(printf %q "$kubeconfig") PATH=$(printf %q "$PWD/bin"):\$PATH"
  fi
  cat <<EOF
  kubectl delete pod web-immortalpod                                 # it is created again:
  kubectl get pods --watch
  kubectl patch ic web --type=merge -p '{"spec":{"suspend":true}}'   # no Pod, until it is false again
  kubectl apply -f $(printf %q "$PWD/$samples_dir/immortalcontainer/immortalcontainer-template.yaml")

  kubectl scale ha/hello --replicas=3
  kubectl rollout status deployment/hello

  kubectl patch \$(kubectl get switches -o name) --type=merge -p '{"spec":{"position":"up"}}'
  kubectl get machine panel --watch                                  # they come down, one every five seconds
  kubectl scale machine panel --replicas=5
EOF
  if [ -z "${CLUSTER:-}" ]; then
    print_what_to_try_with_actions
    print_what_to_try_with_the_hook
  fi
  ! farm_wanted || print_what_to_try_on_the_farm
  cat <<EOF

  kill -9 \$(cat $(printf %q "$(pid_file controllers)"))   # at any moment: they are started again, and continue${CLUSTER:+ once their Lease expires}

  kubectl explain immortalcontainer.spec                             # all fields; or helloapp.spec, machine.spec, actionset.spec, compositecontroller.spec
Guides: $(printf %q "$PWD/$samples_dir")

Logs: $where
Ctrl-C stops all of it.
EOF
}

trap finish EXIT
trap 'exit 0' INT TERM HUP

[ -n "${CLUSTER:-}" ] || start_control_plane
require_cluster
find_ready_timeout
touch "$work/installed"
forget_farm
install_crds
start_controllers
install_deleted_crds
! farm_wanted || start_farm
[ -n "${CLUSTER:-}" ] || start_hook
apply_samples
show_result
if [ -z "${CLUSTER:-}" ]; then
  show_actionset
  show_greeting
fi
! farm_wanted || show_farm
print_what_to_try
while true; do
  keep_running
  sleep 1
done
