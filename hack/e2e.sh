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

# python_root makes a root file system with Python, and echo, of the packages of this machine's Debian, or of what is like it. It fails
# where there are none.
python_root() {
  local root=$work/root python
  python=$(apt-cache depends python3-minimal | sed -n 's/.*Depends: \(python3\..*\)-minimal$/\1/p')
  [ -n "$python" ] || return
  (cd "$work" && apt-get --quiet=2 --option APT::Sandbox::User=root download "$python-minimal" "lib$python-minimal" "lib$python-stdlib" libc6 libexpat1 zlib1g busybox-static) || return
  mkdir -p "$root"/usr/{bin,lib,lib64}
  ln -s usr/bin usr/lib usr/lib64 "$root"
  for package in "$work"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root" || return
  done
  ln -s "$python" "$root/usr/bin/python3"
  ln -s busybox "$root/usr/bin/echo"
  rm -rf "$root"/usr/share "$root"/usr/lib/*/gconv
}

# What the images have that a sample names, so that it is tested as it is. Once made, it is kept.
if [ ! -e "$images/python-root.tar" ]; then
  work=$(mktemp -d "$images/.work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  if python_root; then
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --directory "$work/root" --file "$work/python-root.tar" .
    mv "$work/python-root.tar" "$images"
  else
    echo "There are no packages to make an image with Python of: the test of CompositeControllers is left out." >&2
  fi
fi

E2E_IMAGES=$images go test -count=1 -timeout 20m -v "$@" ./pkg/e2e
