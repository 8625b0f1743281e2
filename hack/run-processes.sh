#!/usr/bin/env bash
# Sourced by run.sh: the processes that it starts. Each runs under hack/leash: it ends with this script, even after kill -9, and gets no Ctrl-C
# from the terminal, so that the control plane stops last.
# shellcheck disable=SC2154 # work, local_dir

# Our ends of the leash. The FIFO needs no name once it is open.
mkfifo "$work/leash"
exec 9<>"$work/leash"
exec 8<"$work/leash"
rm "$work/leash"

names=() # of what runs, in the order of their start
pids=()  # of their leashes
logs=()
commands=() # quoted for eval

# leashed NAME LOG COMMAND...: starts a command on the leash. Its process id is in pid_file NAME.
leashed() {
  local i=${#names[@]}
  names+=("$1") logs+=("$2")
  printf -v "commands[i]" '%q ' "${@:3}"
  : >"$2"
  launch "$i"
}

# launch INDEX starts a command, for the first time or again.
launch() {
  eval "exec bin/leash -pid-file $(printf %q "$(pid_file "${names[$1]}")") -- ${commands[$1]}" <&8 >>"${logs[$1]}" 2>&1 8<&- 9>&- &
  pids[$1]=$!
}

# pid_file NAME prints the file with the process id of a command.
pid_file() { printf '%s/%s.pid' "$local_dir" "${1// /-}${CLUSTER:+-$CLUSTER}"; }

# keep_running starts each process again that was killed, except the control plane, and the hook also when it has ended by itself: users edit it.
# If another process ends by itself, it ends the script.
keep_running() {
  local i status last
  for i in "${!pids[@]}"; do
    ! kill -0 "${pids[i]}" 2>/dev/null || continue
    status=0
    wait "${pids[i]}" || status=$?
    if [ "$status" -gt 128 ] && [ "${names[i]}" != "control plane" ]; then
      echo "The ${names[i]}: killed by signal $((status - 128)), starting again"
      launch "$i"
    elif [ "${names[i]}" = hook ]; then
      last=$(tail -n 4 "${logs[i]}")
      [ "$last" = "${reported:-}" ] || printf '%s\n' "The hook has ended. It is started again every second. The last lines of ${logs[i]}:" "$last"
      reported=$last
      sleep 1
      launch "$i"
    else
      echo >&2
      [ "$status" -le 128 ] || fail "The ${names[i]} was killed by signal $((status - 128)). make run starts everything again, with the state that is kept."
      fail "The ${names[i]} ended unexpectedly. The last lines of ${logs[i]}:" "$(tail -n 20 "${logs[i]}")"
    fi
  done
}

# await_port PATTERN waits until the log of the process that was started last has a line that matches, whose first group is the port on which
# it listens, and sets port. If it is started again, it listens on the same port.
await_port() {
  local i=$((${#names[@]} - 1))
  until port=$(sed -nE "s/.*$1.*/\\1/p" "${logs[i]}" 2>/dev/null) && [ -n "$port" ]; do
    keep_running
    sleep 0.1
  done
  commands[i]=${commands[i]/port 0 /port $port }
}

# finish stops everything, the last started first, and prints each. It runs whenever the script ends.
finish() {
  local status=$? i
  trap '' INT TERM HUP
  set +o errexit
  [ "${#pids[@]}" = 0 ] || echo
  [ -z "${waiting:-}" ] || kill "$waiting" 2>/dev/null
  [ ! -e "$work/installed" ] || forget_farm
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

