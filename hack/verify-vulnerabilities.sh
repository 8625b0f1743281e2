#!/usr/bin/env bash
# verify-vulnerabilities.sh: no module of this tree calls code with a known vulnerability, as far as https://vuln.go.dev knows. Where that
# cannot be reached, nothing can be said, and that passes with a line that says so. GOVULNDB names another database.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Not a tool in go.mod: what it requires would decide the versions of what we ship.
readonly tool=golang.org/x/vuln/cmd/govulncheck@v1.9.0
# reach and check bound in seconds how long is waited for the database, and for one module.
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
*) command -v curl >/dev/null || unchecked "curl is missing, by which to find out whether $database can be reached"
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
    # A database that goes away in the midst of it is no reason to fail either.
    if grep -qE 'dial tcp|no such host|i/o timeout|connection refused|TLS handshake|unexpected (EOF|status)' "$work/log"; then
      unchecked "$(tail -n 1 "$work/log")"
    fi
    printf 'in module %s:\n%s\n' "$module" "$(cat "$work/log")" && failed=true
    ;;
  esac
done < <(git ls-files '*go.mod' ':!:*testdata*' | xargs -n 1 dirname)
[ -z "$failed" ] || {
  echo "Take a version in which it is mended (go get MODULE@VERSION, in the folder of the module), or see that the code is not called."
  exit 1
}
echo "no known vulnerabilities${skipped:+ (not checked, since it took more than $check s:$skipped)}"
