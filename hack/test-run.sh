#!/usr/bin/env bash
# test-run.sh: tests make run as a newcomer uses it: it shows what it should, the commands that it prints work, and Ctrl-C ends all of it.
# Then it starts again with the kept state, and is killed.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
export MILLWRIGHT_LOCAL_DIR=$work/local # not the state of a developer
output=$work/output
run=

cleanup() {
  # If a command fails, bash exits without a message.
  [ $? = 0 ] || echo "test-run.sh: failed" >&2
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

# within SECONDS WHAT COMMAND...: waits until the command succeeds.
within() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "$what"
    sleep 0.1
  done
}

prints() { grep -qE "$1" "$output"; }

is_ready_or_over() { prints '^Ctrl-C stops all of it' || ! kill -0 "$run" 2>/dev/null; }

# begin starts make run in a process group of its own, as a terminal does, and waits for its last line. Whatever it starts inherits
# descriptor 7: once no process has it open any more, nothing is left.
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
  within 240 "make run is not done after 4 minutes" is_ready_or_over
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

make build bin/leash bin/cluster # which may take its time
begin
prints '^immortalcontainer[^ ]*/web +nginx:latest +web-immortalpod +1 +True ' || fail "kubectl get ic does not show a ready ImmortalContainer"
prints '^pod/web-immortalpod +1/1 +Running ' || fail "kubectl get pods does not show a running Pod"
prints '^machine.useless.container.training/panel +3 +ddd ' || fail "kubectl get does not show a Machine with its switches down"
prints '^helloapp.apps.anupam.com/hello +1 +1 ' || fail "kubectl get does not show a ready HelloApp"
prints '^deployment.apps/hello +1/1 ' || fail "kubectl get does not show the HelloApp's Deployment"
prints '^dolly +31.4 +0.5 ' || fail "kubectl get does not show the Llama"
prints '^farm-web-immortalpod +1 +1/1 +Running ' || fail "kubectl get does not show the FarmPod of the Pod"
prints '^  Normal +Started ' || fail "kubectl describe does not show the event Started"

try 'export KUBECONFIG='
uid=$(kubectl get pod web-immortalpod -o 'jsonpath={.metadata.uid}')
try 'kubectl delete pod'
within 30 "the Pod did not come back after it was deleted" pod_is_new "$uid"
kubectl wait --for=condition=Ready --timeout=60s ic/web pod/web-immortalpod
try 'kubectl patch ic web'
kubectl wait --for=delete --timeout=60s pod/web-immortalpod
try 'kubectl explain immortalcontainer' >"$work/explained"
grep -q '^  image' "$work/explained" || fail "kubectl explain does not know the field image"
try 'kubectl explain llama' >"$work/explained"
grep -q '^  weight' "$work/explained" || fail "kubectl explain does not know the field weight"
try 'kubectl patch llama'
kubectl wait --for=jsonpath='{.spec.weight}'=35 --timeout=10s llama/dolly
[ -n "$(kubectl get farmpods --all-namespaces --selector app.kubernetes.io/instance=hello --output name)" ] || fail "kubectl get does not show the FarmPods of all namespaces"
try 'kubectl apply'
kubectl wait --for=condition=Ready --timeout=60s ic/ticker
kubectl patch ic web --type=merge -p '{"spec":{"suspend":false}}'
kubectl wait --for=condition=Ready --timeout=60s ic/web
try 'kubectl scale ha/hello'
try 'kubectl rollout status'
kubectl wait --for=jsonpath='{.status.readyReplicas}'=3 --timeout=60s ha/hello
try 'kubectl patch ..kubectl get switches'
kubectl wait --for=jsonpath='{.status.positions}'=uuu --timeout=10s machine/panel
within 30 "the switches were not moved down" all_are_down
try 'kubectl scale machine'
kubectl wait --for=jsonpath='{.status.positions}'=ddddd --timeout=10s machine/panel

echo "Pressing Ctrl-C"
interrupted=$SECONDS
kill -INT -- "-$run"
# make itself always reports that it was interrupted, and would report a failure of hack/run.sh.
wait "$run" || [ $? = 130 ] || fail "make run ended with exit status $?"
! prints '^make: [*][*][*]' || fail "hack/run.sh failed"
for what in "API server" controllers "control plane"; do
  prints "^Stopping the $what ... stopped" || fail "it did not report that it has stopped the $what"
done
[ $((SECONDS - interrupted)) -le 15 ] || fail "make run took $((SECONDS - interrupted)) s to end"
within 1 "make run has left processes behind" test -e "$work/gone"

begin
prints '^immortalcontainer[^ ]*/web +nginx:latest +web-immortalpod +3 +True ' || fail "on the kept state, the starts are not the three there have been"
prints '^llama.farm.example.com/dolly configured' || fail "on the kept state, the Llama is not the one there was"
echo "Killing make run"
{ kill -KILL -- "-$run" && wait "$run"; } 2>/dev/null || true # bash would print a message
run=
within 30 "make run was killed, and has left processes behind" test -e "$work/gone"
echo "make run works"
