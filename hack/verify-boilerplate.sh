#!/usr/bin/env bash
# Every Go file begins with the license header. (hack/cluster is a module of its own.)
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Generated files have a build constraint above the header.
missing=$(find cmd hack pkg -path hack/cluster -prune -o -name '*.go' -print0 | xargs -0 awk '
  function finish() { if (file != "" && matched < lines) print "  " file }
  FILENAME == ARGV[1] { if (NF) header[++lines] = $0; next }
  FNR == 1 { finish(); file = FILENAME; matched = 0; other = 0 }
  other || matched == lines || /^(\/\/go:build .*|\/\/ [+]build .*|)$/ { next }
  $0 == header[matched + 1] { matched++; next }
  { other = 1 }
  END { finish() }' hack/boilerplate.go.txt)
if [ -n "$missing" ]; then
  printf 'These files do not begin with hack/boilerplate.go.txt: put it there.\n%s\n' "$missing"
  exit 1
fi
echo "every Go file has the license header"
