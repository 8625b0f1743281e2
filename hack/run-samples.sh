#!/usr/bin/env bash
# Sourced by run.sh: the samples that need nothing but the controllers.
# shellcheck disable=SC2154 # work

samples_dir=manifests/samples
sample_files=()
samples=() # the same as arguments of kubectl
for sample in immortalcontainer/immortalcontainer helloapp/helloapp machine/machine-switches; do
  sample_files+=("$samples_dir/$sample.yaml")
  samples+=(-f "$samples_dir/$sample.yaml")
done

# The Ready condition of an object: status, reason and message, separated by tabs.
ready='.status.conditions[?(@.type=="Ready")]'
ready_condition="{$ready.status}{'\t'}{$ready.reason}{'\t'}{$ready.message}"

# find_ready_timeout sets ready_timeout, the seconds that samples may take to be Ready: as long as a busy machine needs. But what is left of an
# earlier run is as its user has made it, and may never be Ready.
find_ready_timeout() {
  ready_timeout=180
  [ -z "$(kubectl get "${samples[@]}" --ignore-not-found --output name 2>/dev/null)" ] || ready_timeout=5 # an error: there are no CRDs either
}

# apply_absent FILE...: applies those files whose object is not there. An object of an earlier run stays as its user has made it.
apply_absent() {
  local file name kept=() absent=()
  for file in "$@"; do
    name=$(kubectl get -f "$file" --ignore-not-found --output name 2>/dev/null) || name= # its kind is not served
    if [ -n "$name" ]; then
      kept+=("$name")
    else
      absent+=(-f "$file")
    fi
  done
  [ "${#kept[@]}" = 0 ] || printf '\n%s\n' "Kept as they are: ${kept[*]}"
  [ "${#absent[@]}" = 0 ] || show apply "${absent[@]}"
}

# apply_samples applies the samples and waits until they are Ready: on a simulated node for seconds, elsewhere until their images have been
# pulled. What a user has made of them on a kept state is no reason to stop: then it reports which are not Ready, and why. It ends the script
# if a process on the leash ends before.
apply_samples() {
  apply_absent "${sample_files[@]}" || printf '\n%s\n' "Not all samples could be applied, see above. Everything else runs."
  "${kubectl_command[@]}" wait --for=condition=Ready --timeout="${ready_timeout}s" "${samples[@]}" >"$work/waited" 2>&1 8<&- 9>&- &
  waiting=$!
  while kill -0 "$waiting" 2>/dev/null; do
    keep_running
    sleep 0.2
  done
  if wait "$waiting"; then
    cat "$work/waited"
  else
    report_not_ready
  fi
}

# report_not_ready prints each sample that is not Ready, with the reason and the message of its condition.
report_not_ready() {
  local fields kind name generation observed status reason message
  fields="{.kind}{'\t'}{.metadata.name}{'\t'}{.metadata.generation}{'\t'}{$ready.observedGeneration}{'\t'}$ready_condition{'\n'}"
  echo
  kubectl get --ignore-not-found "${samples[@]}" --output "jsonpath={range .items[*]}$fields{end}" >"$work/conditions" || return 0
  # A tab would join empty fields.
  while IFS=$'\x1f' read -r kind name generation observed status reason message; do
    if [ "$generation" != "$observed" ]; then
      echo "$kind $name is not Ready: the controllers have not synced its last change yet"
    elif [ "$status" != True ]; then
      echo "$kind $name is not Ready${reason:+: $reason}${message:+: $message}"
    fi
  done < <(tr '\t' '\037' <"$work/conditions")
  echo "That does not stop anything: make run goes on. To have a sample as it was made, delete it, and run make run again."
}

# show_actionset runs an action: its Pods and commands need no containers, because annotations give the simulated node their output.
show_actionset() {
  local set=actionset/bookshop-monday state= deadline=$((SECONDS + ready_timeout))
  apply_absent "$samples_dir"/actionset/first/*.yaml || return 0
  until [[ $state =~ ^(complete|failed)$ ]] || [ "$SECONDS" -gt "$deadline" ]; do
    sleep 0.2
    state=$(kubectl get "$set" --output 'jsonpath={.status.state}') || return 0
  done
  show get actionsets || true
  if [ "$state" = complete ]; then
    show get "$set" --output 'jsonpath={.status.actions[0].artifacts.sales.keyValue}{"\n"}' || true
  else
    show get "$set" --output 'jsonpath={.status.error.message}{.status.conditions[?(@.type=="Progressing")].message}{"\n"}' || true
  fi
  show events --for "$set" || true
}

print_what_to_try_with_actions() {
  cat <<EOF

  sed s/monday/tuesday/ $(printf %q "$PWD/$samples_dir/actionset/first/3-actionset.yaml") | kubectl apply -f -
  kubectl describe actionset bookshop-tuesday                        # its phases, as they end
EOF
}
