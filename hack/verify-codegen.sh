#!/usr/bin/env bash
# Generated files are what would be generated now. They are generated in a copy: the tree is not changed, and need not be a git
# repository.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p bin/codegen "$work/now" "$work/new"
cp -R cmd pkg hack manifests go.mod go.sum "$work/now"
cp -R "$work/now/." "$work/new"
# The generators are linked only once.
mkdir "$work/new/bin"
ln -s "$PWD/bin/codegen" "$work/new/bin/codegen"
if ! "$work/new/hack/update-codegen.sh" >"$work/log" 2>&1; then
  echo "hack/update-codegen.sh fails:"
  cat "$work/log"
  exit 1
fi
rm -r "$work/new/bin"
if ! (cd "$work" && diff -Naur now new) >"$work/diff"; then
  echo "Generated files are not current. Run: make generate"
  grep -E '^diff ' "$work/diff" | sed 's|.* new/|  |'
  head -n 40 "$work/diff"
  exit 1
fi
echo "generated files are current"
