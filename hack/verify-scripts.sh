#!/usr/bin/env bash
# Every shell script can be parsed and executed, and runs go with the flags of go-env.sh.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS= read -r script; do
  bash -n "$script" || status=1
  [ -x "$script" ] || { echo "$script is not executable. Run: chmod +x $script" && status=1; }
  # A script that is sourced has the environment of the one that sources it.
  if grep -qE '(^|[^-[:alnum:]"])go (build|install|list|run|test|vet) ' <(grep -v '^ *#' "$script") && ! grep -qE '^source .*go-env[.]sh$|^# Sourced by' "$script"; then
    echo "$script runs go, and does not source hack/go-env.sh: packages would be compiled again with other flags" && status=1
  fi
done < <(find .ci hack manifests -name '*.sh' -o -path .ci/run)
[ "$status" = 0 ] || exit "$status"
echo "every script can be parsed, and has the environment of go"
