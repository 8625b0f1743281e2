#!/usr/bin/env bash
# update-gomod.sh VERSION (for example 1.37.1): makes go.mod build that version of Kubernetes.
#
# k8s.io/kubernetes is not meant to be imported: its go.mod replaces the staging modules (k8s.io/api, k8s.io/client-go, ...) by
# directories of its own repository, and replaces do not reach an importer. So they are written here, pointing to the published
# v0.MINOR.PATCH of each. etcd's server and the godebug settings follow Kubernetes too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=${1:?usage: update-gomod.sh VERSION, for example 1.37.1}
version=${version#v}
staging_version=v0.${version#1.}

# Outside this module, whose current replaces must not matter.
kubernetes_mod=$(cd / && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",\{0,1\}$/\1/p')
[ -n "$kubernetes_mod" ] || { echo "update-gomod.sh: cannot download k8s.io/kubernetes v$version" >&2; exit 1; }
etcd_version=$(awk '$1 == "go.etcd.io/etcd/client/v3" { print $2 }' "$kubernetes_mod")
godebug=$(awk '$1 == "godebug" { print $2 }' "$kubernetes_mod")

staging_modules=$(awk '$2 == "=>" && $3 ~ /^\.\/staging\// { print $1 }' "$kubernetes_mod")

edits=("-require=k8s.io/kubernetes@v$version" "-require=go.etcd.io/etcd/server/v3@$etcd_version")
[ -z "$godebug" ] || edits+=("-godebug=$godebug")
for module in $(awk '$2 == "=>" && $1 ~ /^k8s\.io\// { print $1 }' go.mod); do
  edits+=("-dropreplace=$module")
done
go mod edit "${edits[@]}"

{
  echo "replace ("
  for module in $staging_modules; do
    echo "$module => $module $staging_version"
  done
  echo ")"
} >>go.mod
go mod edit -fmt
go mod tidy

# Kubernetes requires its staging modules at v0.0.0. The versions that they really have read better.
edits=()
for module in $staging_modules; do
  if awk -v module="$module" '$1 == module && $2 ~ /^v/ { found = 1 } END { exit !found }' go.mod; then
    edits+=("-require=$module@$staging_version")
  fi
done
go mod edit "${edits[@]}"
go mod tidy
echo "go.mod is at Kubernetes v$version and etcd $etcd_version. Now run build.sh and the tests."
