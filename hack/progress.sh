# shellcheck shell=bash
# Sourced by the scripts that compile: how far they are, and how long it still takes.

# stale ARG...: lists the packages that go list with these flags and packages names, or that they depend on, and that have to be compiled. After a tab comes
# what each costs: the size of its files in bytes, and something for starting the compiler.
stale() {
  local files
  # The main packages of tests are generated.
  files=$(go list -deps -f '{{if .Stale}}{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}}{{"\t"}}{{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}' "$@" | grep -v $'\\.test\t' | grep .) || return 0
  cut -f 2 <<<"$files" | tr '\n' '\0' | xargs -0 wc -c |
    awk -F '\t' 'NR == FNR { size = $0 + 0; sub(/^ *[0-9]+ /, ""); sizes[$0] = size; next }
      { if (!($1 in cost)) cost[$1] = 20000; cost[$1] += sizes[$2] }
      END { for (package in cost) printf "%s\t%d\n", package, cost[package] }' - <(echo "$files")
}

reporter= # the process that prints how far it is

# start_reporter NAME SECONDS COSTS LOG: prints every SECONDS seconds how far the script NAME is: COSTS is what stale has printed, and LOG gets the names
# of compiled packages, as go prints them with -v.
start_reporter() {
  report "$@" &
  reporter=$!
}

# stop_reporter: after it the reporter prints no more.
stop_reporter() {
  [ -n "$reporter" ] || return 0
  kill "$reporter" 2>/dev/null || true
  wait "$reporter" 2>/dev/null || true
  reporter=
}

report() {
  local begin=$SECONDS pause=
  # Bash handles a signal after the program in the foreground has ended: awk, which prints its line first, and not sleep, which may take long.
  trap 'kill "$pause" 2>/dev/null; exit' TERM
  while sleep "$2" & pause=$! && wait "$pause"; do
    awk -F '\t' -v name="$1" -v seconds=$((SECONDS - begin)) 'NR == FNR { cost[$1] = $2; all += $2; packages++; next }
      $0 in cost { done += cost[$0]; compiled++; delete cost[$0] }
      END {
        rest = ""
        if (compiled == packages)
          rest = ", now linking"
        else if (done > all / 50) {
          left = seconds * (all - done) / done
          rest = left < 90 ? sprintf(", about %d s left", left + 5) : sprintf(", about %d min left", (left + 45) / 60)
        }
        printf "%s: %d of %d packages compiled after %d s%s\n", name, compiled, packages, seconds, rest
      }' "$3" "$4"
  done
}
