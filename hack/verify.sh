#!/usr/bin/env bash
# verify.sh [NAME...]: runs the verify-NAME.sh next to it, or every one, all of them even if one fails, and prints how long each took. Each
# prints one line if it passes; otherwise what is wrong, and what to do about it.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/require.sh go
scripts=(hack/verify-*.sh)
if [ $# -gt 0 ]; then
  scripts=("${@/#/hack/verify-}")
  scripts=("${scripts[@]/%/.sh}")
fi
failed=
for script in "${scripts[@]}"; do
  name=${script#hack/verify-}
  name=${name%.sh}
  printf '%-12s ' "$name"
  begin=$SECONDS
  if output=$("$script" 2>&1); then
    printf '%s (%d s)\n' "$output" $((SECONDS - begin))
  else
    printf 'FAILED (%d s)\n%s\n' $((SECONDS - begin)) "$output"
    failed+=" $name"
  fi
done
if [ -n "$failed" ]; then
  echo "Failed:$failed" >&2
  exit 1
fi
