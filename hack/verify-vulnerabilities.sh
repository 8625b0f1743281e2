#!/usr/bin/env bash
# verify-vulnerabilities.sh: no module of this tree calls code with a vulnerability that https://vuln.go.dev lists. If that cannot be
# reached, the check passes with a line that reports it. GOVULNDB names another database.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

# Not a tool in go.mod: its requirements would change the versions of what we ship.
readonly tool=golang.org/x/vuln/cmd/govulncheck@v1.9.0
# reach and check are the limits, in seconds, for the database and for one module.
readonly reach=10 check=900
database=${GOVULNDB:-https://vuln.go.dev}

unchecked() {
  echo "vulnerabilities not checked: $*"
  exit 0
}

bounded() { # SECONDS COMMAND...
  if command -v timeout >/dev/null; then
    timeout --kill-after=5 "$@"
  else # macOS has none
    perl -e 'alarm shift; exec @ARGV' "$@"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $database in
file://*) [ -r "${database#file://}/index/db.json" ] || unchecked "there is no database at $database" ;;
*) command -v curl >/dev/null || unchecked "curl is missing, which is needed to check whether $database can be reached"
  curl --silent --fail --output /dev/null --max-time "$reach" "$database/index/db.json" || unchecked "the database at $database cannot be reached" ;;
esac
GOBIN=$work bounded "$check" go install "$tool" >"$work/log" 2>&1 ||
  unchecked "$tool cannot be installed: $(tail -n 1 "$work/log")"

failed='' skipped=''
while read -r module; do
  status=0
  (cd "$module" && bounded "$check" "$work/govulncheck" -db "$database" ./...) >"$work/log" 2>&1 || status=$?
  case $status in
  0) ;;
  3) printf 'in module %s:\n%s\n' "$module" "$(cat "$work/log")" && failed=true ;;
  124 | 137 | 142) skipped+=" $module" ;;
  *)
    # It is no failure either if the database becomes unreachable during the check.
    if grep -qE 'dial tcp|no such host|i/o timeout|connection refused|TLS handshake|unexpected (EOF|status)' "$work/log"; then
      unchecked "$(tail -n 1 "$work/log")"
    fi
    printf 'in module %s:\n%s\n' "$module" "$(cat "$work/log")" && failed=true
    ;;
  esac
done < <(git ls-files '*go.mod' ':!:*testdata*' | xargs -n 1 dirname)
[ -z "$failed" ] || {
  echo "Use a version in which it is fixed (go get MODULE@VERSION, in the folder of the module), or make sure that the code is not called."
  exit 1
}
echo "no known vulnerabilities${skipped:+ (not checked, since it took more than $check s:$skipped)}"
