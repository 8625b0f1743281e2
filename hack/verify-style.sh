#!/usr/bin/env bash
# Hand-written files keep to the words, the width and the links that hack/style checks.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

if ! found=$(go run ./hack/style 2>&1); then
  printf 'Fix these words, widths and links. The words to use are in hack/style/words.go.\n%s\n' "$found"
  exit 1
fi
echo "words, widths and links are correct"
