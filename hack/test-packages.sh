#!/usr/bin/env bash
# test-packages.sh unit|integration: lists the packages of this module whose tests need no cluster, or those whose tests do: they import
# pkg/testing/testcluster.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
  awk -v part="$1" '{
    needs = 0
    for (i = 1; i <= NF; i++) if ($i == "millwright.dev/pkg/testing/testcluster") needs = 1
    if (needs == (part == "integration")) print $1
  }'
