#!/usr/bin/env bash
# Every Go file is formatted.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unformatted=$(gofmt -l cmd hack pkg)
if [ -n "$unformatted" ]; then
  printf 'These files are not formatted. Run: make fmt\n%s\n' "$unformatted"
  exit 1
fi
echo "every Go file is formatted"
