#!/usr/bin/env bash
# The go.mod and go.sum of every module are tidy, and bin/cluster is built from the versions of modules that bin/millwright is built from.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

for module in . hack/chart hack/cluster hack/cluster/coredns; do
  if ! difference=$(cd "$module" && go mod tidy -diff 2>&1); then
    printf '%s/go.mod or go.sum is not tidy. Run there: go mod tidy\n%s\n' "$module" "$difference"
    exit 1
  fi
done

# modules PACKAGE: the modules whose packages the package is built from, each with its version.
modules() {
  go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}' "$1" | sort -u
}

# A package that imports another version of something is compiled again: 700 packages more in a first build for four small modules.
ours=$(modules ./cmd/millwright)
theirs=$(cd hack/cluster && modules .)
different=$(join <(echo "$ours") <(echo "$theirs") | awk '$2 != $3 { print "  " $1 ": " $2 " here, " $3 " there" }')
if [ -n "$different" ]; then
  printf 'bin/millwright and bin/cluster are built from different versions. Use the newer in go.mod and in hack/cluster/go.mod:\n%s\n' "$different"
  exit 1
fi
echo "every module is tidy, and the programs share their versions"
