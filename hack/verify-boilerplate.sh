#!/usr/bin/env bash
# Every Go file begins with the license header. (hack/cluster is a module of its own.)
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

header=$(cat hack/boilerplate.go.txt)
missing=
while IFS= read -r file; do
  # Generated files have a build constraint above it.
  begin=$(head -n 10 "$file" | grep -vE '^(//go:build .*|// [+]build .*|)$')
  [[ $begin == "$header"* ]] || missing+="  $file"$'\n'
done < <(find cmd hack pkg -path hack/cluster -prune -o -name '*.go' -print)
if [ -n "$missing" ]; then
  printf 'These files do not begin with hack/boilerplate.go.txt: put it there.\n%s' "$missing"
  exit 1
fi
echo "every Go file has the license header"
