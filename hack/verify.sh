#!/usr/bin/env bash
# verify.sh [NAME...]: runs the verify-NAME.sh next to it, all of them even if one fails, and prints how long each took. Each prints one line if
# it passes; otherwise what is wrong, and what to do about it. Two run at a time: most use one core for much of their time. Without a NAME
# it runs every one but deadcode, which has whole programs in memory and takes longer than the others together; all is every one.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/require.sh go
every=$(basename -a hack/verify-*.sh | sed 's/^verify-//; s/[.]sh$//')
case $* in
'') names=$(grep -vx deadcode <<<"$every") ;;
all) names=$every ;;
*) names=$(printf '%s\n' "$@") ;;
esac
for name in $names; do
  [ -x "hack/verify-$name.sh" ] || { echo "invalid check \"$name\": must be all, or some of" $every >&2 && exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work

# verify NAME: runs one. A file in $work has the name of each that failed.
verify() {
  local output
  if output=$("hack/verify-$1.sh" 2>&1); then
    printf '%-15s %s (%d s)\n' "$1" "$output" "$SECONDS"
  else
    printf '%-15s FAILED (%d s)\n%s\n' "$1" "$SECONDS" "$output"
    : >"$work/$1"
  fi
}
export -f verify

xargs -n 1 -P 2 bash -c 'verify "$1"' - <<<"$names"
failed=$(ls "$work")
if [ -n "$failed" ]; then
  echo "Failed: ${failed//$'\n'/ }" >&2
  exit 1
fi
