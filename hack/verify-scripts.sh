#!/usr/bin/env bash
# Every shell script can be parsed and executed.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS= read -r script; do
  bash -n "$script" || status=1
  [ -x "$script" ] || { echo "$script is not executable. Run: chmod +x $script" && status=1; }
done < <(find .ci hack manifests -name '*.sh' -o -path .ci/run)
[ "$status" = 0 ] || exit "$status"
echo "every script can be parsed"
