#!/usr/bin/env bash
# run.sh: runs all of Millwright on this machine, or with CLUSTER=current against a cluster of yours (target-cluster.sh): CRDs,
# controllers, API server and samples, and then shows what a user would look at. It runs until Ctrl-C. "make run" builds what it needs.
#
# The control plane, the controllers and the API server of Llamas each run under hack/leash: they end with this script, even after
# kill -9, and get no Ctrl-C from the terminal, so that the control plane stops last.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A command in the background of a script ignores SIGINT, and bash cannot trap a signal that it ignored from the start.
if [ -n "$(trap -p INT)" ] && env --default-signal=INT true 2>/dev/null; then
  exec env --default-signal=INT "$0" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh
source hack/drain.sh
source hack/run-farm.sh

samples_dir=manifests/samples
samples=() # one of each kind
for sample in immortalcontainer/immortalcontainer helloapp/helloapp machine/machine-switches; do
  samples+=(-f "$samples_dir/$sample.yaml")
done
log=$local_dir/millwright${CLUSTER:+-$CLUSTER}.log

# Our ends of the leash. The FIFO needs no name once it is open.
mkfifo "$work/leash"
exec 9<>"$work/leash"
exec 8<"$work/leash"
rm "$work/leash"

names=() # of what runs, in the order of their start
pids=()
logs=()

# leashed NAME LOG COMMAND...: starts a command on the leash.
leashed() {
  names+=("$1") logs+=("$2")
  bin/leash -- "${@:3}" <&8 >"$2" 2>&1 8<&- 9>&- &
  pids+=($!)
}

# check_leashed ends the script if one of the commands has ended.
check_leashed() {
  local i
  for i in "${!pids[@]}"; do
    if ! kill -0 "${pids[i]}" 2>/dev/null; then
      echo >&2
      fail "The ${names[i]} ended unexpectedly. The last lines of ${logs[i]}:" "$(tail -n 20 "${logs[i]}")"
    fi
  done
}

# finish stops everything, the last started first, and prints each. It runs whenever the script ends.
finish() {
  local status=$? i
  trap '' INT TERM HUP
  set +o errexit
  [ "${#pids[@]}" = 0 ] || echo
  [ -z "${waiting:-}" ] || kill "$waiting" 2>/dev/null
  [ -n "${CLUSTER:-}" ] || [ ! -e "$work/installed" ] || forget_farm
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || continue
    printf 'Stopping the %s ... ' "${names[i]}"
    # 143: it had just started, and did not handle signals yet.
    if wait "${pids[i]}" || [ $? = 143 ]; then
      echo "stopped."
    else
      echo "failed. The last lines of ${logs[i]}:"
      tail -n 20 "${logs[i]}"
      status=1
    fi
  done
  [ ! -e "$work/installed" ] || print_what_is_kept
  rm -rf "$work"
  exit "$status"
}

print_what_is_kept() {
  if [ "${CLUSTER:-}" = current ]; then
    echo "The CRDs and the samples were kept in context $context. To remove them, and every object of our kinds there:"
    echo "  kubectl delete ${samples[*]}"
    echo "  make uninstall CLUSTER=current"
    [ -z "$(kept)" ] || printf '%s\n' "Do that while make run CLUSTER=current runs: without it, these CompositeControllers could not be deleted:" "$(kept)"
    [ -z "$(running)" ] || printf '%s\n' "These ActionSets have not ended, and continue with the next make run CLUSTER=current:" "$(running)"
  else
    echo "The state is kept in $cluster_dir: make run continues with it, make clean removes it."
  fi
}

# show ARGUMENTS...: prints a kubectl command and its output.
show() {
  printf '\n$ kubectl %s\n' "$*"
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
    check_leashed
    sleep 0.1
  done
  echo "It is ready at $(cat "$cluster_dir/ready")"
}

start_controllers() {
  echo "Starting the controllers"
  local flags=(--kubeconfig "$kubeconfig" --serving-address 127.0.0.1:0)
  # In a shared cluster, other clients may be at work.
  [ "${CLUSTER:-}" = current ] || flags+=(--leader-elect=false)
  leashed controllers "$log" bin/millwright controllers "${flags[@]}"
}

# apply_samples returns when they are Ready: on a simulated node within seconds, elsewhere after their images have been pulled. It ends
# the script if a controller ends before.
apply_samples() {
  show apply "${samples[@]}"
  "${kubectl_command[@]}" wait --for=condition=Ready --timeout=3m "${samples[@]}" 8<&- 9>&- &
  waiting=$!
  while kill -0 "$waiting" 2>/dev/null; do
    check_leashed
    sleep 0.2
  done
  if ! wait "$waiting"; then
    kubectl describe "${samples[@]}" >&2
    fail "" "The samples are not Ready after 3 minutes. The log of the controllers is $log."
  fi
}

show_result() {
  show get immortalcontainers,helloapps,machines,switches
  show get deployments,pods
  show describe ic web
}

print_what_to_try() {
  local where=$log
  echo
  echo "----------------------------------------------------------------------------------------------------"
  if [ "${CLUSTER:-}" = current ]; then
    echo "Millwright runs against context $context, without Llamas and FarmPods: your cluster cannot reach an API server on this machine."
    echo "Try, in another terminal:"
    echo
  else
    where="$log, $farm_log, $cluster_dir/log/cluster.log"
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
  [ -n "${CLUSTER:-}" ] || print_what_to_try_on_the_farm
  cat <<EOF

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
touch "$work/installed"
[ -n "${CLUSTER:-}" ] || forget_farm
install_crds
start_controllers
[ -n "${CLUSTER:-}" ] || start_farm
apply_samples
show_result
[ -n "${CLUSTER:-}" ] || show_farm
print_what_to_try
while true; do
  check_leashed
  sleep 1
done
