#!/usr/bin/env bash
# staticcheck, at the version in go.mod, has no findings.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

# Generated code is not checked. And register-gen marks SchemeGroupVersion as deprecated, although all generated code uses it and its
# replacement has no WithKind and WithResource.
packages=$(go list ./... | grep -v '/pkg/generated/')
# Not go tool, which ignores the flags of go-env.sh.
findings=$(xargs go run honnef.co/go/tools/cmd/staticcheck 2>&1 <<<"$packages" | grep -v -e 'SchemeGroupVersion is deprecated: use GroupVersion' -e '^exit status') || true
if [ -n "$findings" ]; then
  printf 'Each finding has a code: go tool staticcheck -explain CODE shows what is meant.\n%s\n' "$findings"
  exit 1
fi
echo "staticcheck has no findings"
