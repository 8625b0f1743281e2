#!/usr/bin/env bash
# Sourced by run.sh: a CompositeController whose hook is a process on this machine.
# shellcheck disable=SC2154 # local_dir, samples_dir, port, ready_timeout

greeting_dir=$samples_dir/compositecontroller/greeting
hook_log=$local_dir/hook.log

# start_hook starts the hook, in Python if this machine has it, else in Go.
start_hook() {
  local hook=(python3 -u "$greeting_dir/hook.py")
  if ! python3 -c 'import http.server' >/dev/null 2>&1; then
    hook=(bin/greeting-hook)
    go build -buildvcs=false -o bin/greeting-hook "./$greeting_dir"
  fi
  echo "Starting the hook of the CompositeController greeting: ${hook[*]}"
  leashed hook "$hook_log" "${hook[@]}" --port 0
  await_port 'Listening on 127\.0\.0\.1:([0-9]+)'
  sed "s#http://127\.0\.0\.1:8099/#http://127.0.0.1:$port/#" "$greeting_dir/controller.yaml" >"$work/controller.yaml"
}

# show_greeting installs the CompositeController, with the port of the hook, and a Greeting, and shows the Pods that the hook wants.
show_greeting() {
  printf '\n$ kubectl apply -f %s   # with port %s\n' "$greeting_dir/controller.yaml" "$port"
  kubectl apply -f "$work/controller.yaml" || return 0
  kubectl wait --for=condition=Established --timeout=3m crd/greetings.example.com >/dev/null || return 0
  apply_absent "$greeting_dir/greeting.yaml" || return 0
  kubectl wait --for=condition=Ready --timeout="${ready_timeout}s" compositecontroller/greeting >/dev/null ||
    echo "CompositeController greeting is not Ready: $(kubectl get compositecontroller greeting --output "jsonpath=$ready_condition")"
  kubectl wait --for=jsonpath='{.status.pods}' --timeout="${ready_timeout}s" greeting/alice >/dev/null || true
  show get greetings,compositecontrollers || true
}

print_what_to_try_with_the_hook() {
  cat <<EOF

  kubectl patch greeting alice --type=merge -p '{"spec":{"who":"Bob"}}'   # its hook is a process here: $greeting_dir/hook.py
  kubectl logs alice-0
  kill \$(cat $(printf %q "$(pid_file hook)"))                       # after you have edited it: it is started again
EOF
}
