#!/usr/bin/env bash
# test-run.sh: tests make run as a newcomer uses it: it shows what it should, the commands that it prints work, and Ctrl-C ends all of it.
# Then it starts again on states that users leave behind (test-run-states.sh), and is killed.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

root=$PWD
work=$(mktemp -d)
export MILLWRIGHT_LOCAL_DIR=$work/local # not the state of a developer
unset MAKEFLAGS MAKELEVEL MFLAGS        # a newcomer's make is not part of another one
output=$work/output
run=
watch=

source hack/test-run-states.sh

hook=manifests/samples/compositecontroller/greeting/hook.py

cleanup() {
  # If a command fails, bash exits without a message.
  [ $? = 0 ] || echo "test-run.sh: failed" >&2
  [ ! -e "$work/hook.py" ] || cp "$work/hook.py" "$hook"
  [ -z "$watch" ] || kill "$watch" 2>/dev/null || true
  [ -z "$run" ] || kill -TERM -- "-$run" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "test-run.sh: $1. What make run printed:" >&2
  sed 's/^/  | /' "$output" >&2
  exit 1
}

# within WHAT COMMAND...: waits until the command succeeds. patience, in seconds, ends a wait that would hang: pkg/testing/patience.
patience=$((180 * ${MILLWRIGHT_PATIENCE:-1}))
within() {
  local deadline=$((SECONDS + patience)) what=$1
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "$what, within $patience s"
    sleep 0.1
  done
}

prints() { grep -qE "$1" "$output"; }

is_ready_or_over() { prints '^Ctrl-C stops all of it' || ! kill -0 "$run" 2>/dev/null; }

has_gone_on() { is_ready_or_over || [ "$(stat --format %s "$output")" != "$1" ]; }

# begin starts make run in a process group of its own, as a terminal does, and waits for its last line. It takes many steps, so that patience is for
# what it prints next. Whatever it starts inherits descriptor 7: once no process has it open any more, nothing is left.
begin() {
  local begun=$SECONDS
  rm -f "$work/alive" "$work/gone"
  : >"$output"
  mkfifo "$work/alive"
  (cat "$work/alive" && touch "$work/gone") &
  set -o monitor
  make run >"$output" 2>&1 7>"$work/alive" &
  run=$!
  set +o monitor
  until is_ready_or_over; do
    within "make run does not go on" has_gone_on "$(stat --format %s "$output")"
  done
  prints '^Ctrl-C stops all of it' || fail "make run ended early"
  echo "make run has shown all of it after $((SECONDS - begun)) s"
}

# try PATTERN: runs the printed command that matches.
try() {
  local line
  line=$(grep -E "^  $1" "$output") || fail "it prints no command that begins with: $1"
  echo "\$ ${line#  }"
  eval "$line"
}

pod_is_new() {
  local uid
  uid=$(kubectl get pod web-immortalpod --ignore-not-found -o 'jsonpath={.metadata.uid}') && [ -n "$uid" ] && [ "$uid" != "$1" ]
}

all_are_down() { [ "$(kubectl get machine panel -o 'jsonpath={.status.positions}')" = ddd ]; }

greets() { kubectl logs alice-0 2>&1 | grep -q "Hello, $1!"; }

has_new_pid() { [ "$(cat "$MILLWRIGHT_LOCAL_DIR/controllers.pid")" != "$1" ]; }

# interrupt presses Ctrl-C.
interrupt() {
  local interrupted=$SECONDS what
  echo "Pressing Ctrl-C"
  kill -INT -- "-$run"
  # make itself always reports that it was interrupted, and would report a failure of hack/run.sh.
  wait "$run" || [ $? = 130 ] || fail "make run ended with exit status $?"
  ! prints '^make: [*][*][*]' || fail "hack/run.sh failed"
  for what in hook "API server" controllers "control plane"; do
    prints "^Stopping the $what ... stopped" || fail "it did not report that it has stopped the $what"
  done
  echo "make run took $((SECONDS - interrupted)) s to end"
  within "make run has left processes behind" test -e "$work/gone"
}

# use_go_hook hides Python, so that make run takes the hook in Go.
use_go_hook() {
  mkdir -p "$work/path"
  printf '#!/bin/sh\nexit 127\n' >"$work/path/python3"
  chmod +x "$work/path/python3"
  PATH=$work/path:$PATH
}

go build -o "$work/transcript" ./hack/transcript
make build bin/leash bin/cluster # which may take its time
begin
prints '^immortalcontainer[^ ]*/web +nginx:latest +web-immortalpod +1 +True ' || fail "kubectl get ic does not show a ready ImmortalContainer"
prints '^pod/web-immortalpod +1/1 +Running ' || fail "kubectl get pods does not show a running Pod"
prints '^machine.useless.container.training/panel +3 +ddd ' || fail "kubectl get does not show a Machine with its switches down"
prints '^helloapp.apps.anupam.com/hello +1 +1 ' || fail "kubectl get does not show a ready HelloApp"
prints '^deployment.apps/hello +1/1 ' || fail "kubectl get does not show the HelloApp's Deployment"
prints '^dolly +31.4 +0.5 ' || fail "kubectl get does not show the Llama"
prints '^farm-web-immortalpod +1 +1/1 +Running ' || fail "kubectl get does not show the FarmPod of the Pod"
prints '"total":"504"' || fail "kubectl get does not show the artifact of the ActionSet"
prints 'Update Complete +ActionSet/bookshop-monday ' || fail "kubectl events does not show the end of the ActionSet"
prints '^greeting.example.com/alice +Alice +2 ' || fail "kubectl get does not show the Greeting with its Pods"
prints '^compositecontroller.metacontroller.k8s.io/greeting +greetings' || fail "kubectl get does not show the CompositeController"
prints '^  Normal +Started ' || fail "kubectl describe does not show the event Started"

try 'export KUBECONFIG='
(cd "$work" && ln -sfn "$MILLWRIGHT_LOCAL_DIR" .local && ./transcript --patience "${patience}s" "$root/README.md" "$root/manifests/samples/actionset/README.md#on-the-simulated-node") || fail "README.md prints something else, see above"

uid=$(kubectl get pod web-immortalpod -o 'jsonpath={.metadata.uid}')
try 'kubectl delete pod'
within "the Pod did not come back after it was deleted" pod_is_new "$uid"
kubectl wait --for=condition=Ready --timeout="${patience}s" ic/web pod/web-immortalpod
try 'kubectl patch ic web'
kubectl wait --for=delete --timeout="${patience}s" pod/web-immortalpod
try 'kubectl explain immortalcontainer' >"$work/explained"
grep -q '^  image' "$work/explained" || fail "kubectl explain does not know the field image"
try 'kubectl explain llama' >"$work/explained"
grep -q '^  weight' "$work/explained" || fail "kubectl explain does not know the field weight"
try 'kubectl patch llama'
kubectl wait --for=jsonpath='{.spec.weight}'=35 --timeout="${patience}s" llama/dolly
[ -n "$(kubectl get farmpods --all-namespaces --selector app.kubernetes.io/instance=hello --output name)" ] || fail "kubectl get does not show the FarmPods of all namespaces"
try 'kubectl apply'
kubectl wait --for=condition=Ready --timeout="${patience}s" ic/ticker
kubectl patch ic web --type=merge -p '{"spec":{"suspend":false}}'
kubectl wait --for=condition=Ready --timeout="${patience}s" ic/web
try 'kubectl scale ha/hello'
try 'kubectl rollout status'
kubectl wait --for=jsonpath='{.status.readyReplicas}'=3 --timeout="${patience}s" ha/hello
# All are up for five seconds only: that is read from a watch that runs before.
kubectl get machine panel --watch --output 'jsonpath={.status.positions}{"\n"}' >"$work/positions" &
watch=$!
within "kubectl get --watch shows no positions" test -s "$work/positions"
try 'kubectl patch ..kubectl get switches'
within "the switches were not seen up" grep -qx uuu "$work/positions"
kill "$watch"
watch=
within "the switches were not moved down" all_are_down
try 'kubectl scale machine'
kubectl wait --for=jsonpath='{.status.positions}'=ddddd --timeout="${patience}s" machine/panel

! hack/deploy.sh undeploy >"$work/undeployed" 2>&1 || fail "make undeploy removes what make run uses"
grep -q '^make run serves Llamas' "$work/undeployed" || fail "make undeploy does not print why it removes nothing: $(cat "$work/undeployed")"
! make deploy >"$work/deployed" 2>&1 || fail "make deploy does not fail without a real node"
grep -q '^The local cluster has no real node' "$work/deployed" || fail "make deploy does not print that there is no real node: $(cat "$work/deployed")"
! grep -q '^Building the operator' "$work/deployed" || fail "make deploy builds images before it checks that there is a node"
! KUBECONFIG=$work/none make run CLUSTER=current >"$work/current" 2>&1 || fail "make run CLUSTER=current does not fail without a kubeconfig"
grep -q 'unset KUBECONFIG$' "$work/current" || fail "make run CLUSTER=current does not print what to do about KUBECONFIG: $(cat "$work/current")"
bin/millwright controllers --kubeconfig "$KUBECONFIG" --serving-address 0 >"$work/second" 2>&1 &
second=$!
within "controllers that a developer starts next to make run do not stand by" grep -q 'Standing by, another process leads.* leader="make-run"' "$work/second"
controllers=$(cat "$MILLWRIGHT_LOCAL_DIR/controllers.pid")
try 'kill -9 '
within "the controllers were killed, and not started again" prints '^The controllers: killed by signal 9, starting again'
within "the controllers have no new process id" has_new_pid "$controllers"
uid=$(kubectl get pod web-immortalpod -o 'jsonpath={.metadata.uid}')
kubectl delete pod web-immortalpod
within "the Pod was not created again by the controllers that were started again" pod_is_new "$uid"
! grep -q 'Became the leader' "$work/second" || fail "the controllers that were started again do not lead, but those of the developer"
kill "$second"
wait "$second" || fail "the controllers of the developer failed: $(cat "$work/second")"
try 'kubectl patch greeting'
within "the hook is not called: no Pod greets Bob" greets Bob
try 'kill ..cat'
within "the hook was killed, and not started again" prints '^The hook: killed by signal 15, starting again'
kubectl patch greeting alice --type=merge -p '{"spec":{"who":"Carol"}}'
within "the hook that was started again is not called: no Pod greets Carol" greets Carol

cp "$hook" "$work/hook.py"
sed -i '1i broken' "$hook"
try 'kill ..cat'
within "the hook cannot start, and it does not print why" prints "^NameError: name 'broken' is not defined"
cp "$work/hook.py" "$hook"
kubectl patch greeting alice --type=merge -p '{"spec":{"who":"Dora"}}'
within "the hook that was mended was not started again: no Pod greets Dora" greets Dora

leave suspended sample_deleted llama_deleted controller_edited crd_edited namespace_deleted
interrupt
begin
prints '^llama.farm.example.com/dolly created' || fail "the Llama that was deleted is not created again"
expect suspended sample_deleted llama_deleted controller_edited crd_edited namespace_deleted
leave node_cordoned foreign_pod quota sample_terminating crd_terminating webhook
interrupt
use_go_hook
begin
expect node_cordoned quota webhook foreign_pod sample_terminating crd_terminating
leave deployed kubeconfig_lost
echo "Killing make run"
{ kill -KILL -- "-$run" && wait "$run"; } 2>/dev/null || true # bash would print a message
within "make run was killed, and has left processes behind" test -e "$work/gone"
begin
expect deployed kubeconfig_lost
interrupt
run=
echo "make run works"
