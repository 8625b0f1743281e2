# shellcheck shell=bash
# Sourced by scripts that run parts, all of them even if one fails, and print at the end how long each took and what became of the tests.

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
: >"$parts/closing"
status=0
TIMEFORMAT='%0U %0S'

# part NAME COMMAND...: runs a part. Its line of the summary is in $parts/summary; the last lines of hack/test.sh are in $parts/closing.
part() {
  local name=$1 begin=$SECONDS verdict=ok cpu
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  rm -f .local/tests/closing
  { cpu=$({ time "$@" >&3 2>&4; } 2>&1) || verdict=FAILED status=1; } 3>&1 4>&2
  printf '%-14s %-7s %4d s %5d s CPU\n' "$name" "$verdict" $((SECONDS - begin)) $((${cpu/ /+})) >>"$parts/summary"
  [ ! -e .local/tests/closing ] || cat .local/tests/closing >>"$parts/closing"
}

# finish prints the summary, and exits with 1 if a part has failed.
finish() {
  printf '\n=== %s after %d s\n' "$([ "$status" = 0 ] && echo passed || echo FAILED)" "$SECONDS"
  cat "$parts/summary" "$parts/closing"
  exit "$status"
}
