#!/usr/bin/env bash
# e2e.sh [FLAGS OF go test]: the end-to-end tests, of pkg/e2e, on a real node: it builds two versions of the image, and the images that
# the tests run in containers. Exit code 3 and a word why where this machine cannot have a node.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! bin/cluster node prepare; then
  echo "The end-to-end tests need a real node, which this machine cannot have, see above." >&2
  exit 3
fi
hack/cluster/build.sh node

images=$PWD/bin/e2e
mkdir -p "$images"
for version in 1 2; do
  make image IMG="millwright:e2e-$version" VERSION="e2e-$version"
  mv bin/image/image.tar "$images/millwright-$version.tar"
done
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$images/app" ./pkg/e2e/app
for version in 1 2; do
  bin/cluster image pack --name "millwright.dev/e2e/app:$version" --entrypoint "/app,serve,$version" "$images/app" "$images/app-$version.tar"
done

E2E_IMAGES=$images go test -count=1 -timeout 20m -v "$@" ./pkg/e2e
