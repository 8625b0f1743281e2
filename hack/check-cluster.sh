#!/usr/bin/env bash
# check-cluster.sh WHAT: checks the cluster that CLUSTER names (target-cluster.sh) before anything is built for it, which may take minutes:
#   name     it is named right, and answers if it is not the local one, which make run starts
#   answer   it answers, also if it is the local one
#   node     the local one has a node on which Pods run as containers
# It prints nothing if all is well.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${CLUSTER:-}" ]; then
  [ "$1" != name ] || exit 0
  kubeconfig=${MILLWRIGHT_LOCAL_DIR:-.local}/cluster/admin.kubeconfig
  if [ ! -e "$kubeconfig" ]; then
    printf '%s\n' "error: stat $kubeconfig: no such file or directory" \
      "There is no local cluster yet. Start it in another terminal: make cluster, or make run with the controllers. For a cluster of yours: CLUSTER=current" >&2
    exit 1
  fi
  # Without bin/kubectl, which is about to be built, the script that needs it finds out.
  [ -x bin/kubectl ] || exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source hack/target-cluster.sh >/dev/null # the script that works on the cluster prints which it is
require_cluster
[ "$1" != node ] || require_node
