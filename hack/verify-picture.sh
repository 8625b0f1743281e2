#!/usr/bin/env bash
# The picture in README.md is made from hack/picture.dot. The check needs no Graphviz.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/picture.sh check
echo "the picture is current"
