#!/usr/bin/env bash
# e2e-images.sh: builds the images that the end-to-end tests need, in bin/e2e: two versions of the operator's, and those that the tests run in
# containers. It prepares the machine for a real node first. If this machine cannot have a node, it prints why and exits with code 3.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/go-env.sh

hack/require.sh node
hack/cluster/build.sh node

images=$PWD/bin/e2e
mkdir -p "$images"
for version in 1 2; do
  make image IMG="millwright:e2e-$version" VERSION="e2e-$version" PLATFORMS="linux/$(go env GOARCH)"
  mv bin/image/image.tar "$images/millwright-$version.tar"
done
go build -buildvcs=false -o "$images/app" ./pkg/testing/e2e/app
for version in 1 2; do
  bin/cluster image pack --name "millwright.dev/e2e/app:$version" --entrypoint "/app,serve,$version" "$images/app" "$images/app-$version.tar"
done

# unpack PACKAGE...: unpacks packages of this machine's Debian, or of a similar distribution, into $work/root. It fails if there are none.
unpack() {
  local root=$work/root package
  mkdir -p "$root"/usr/{bin,lib,lib64}
  ln -s usr/bin usr/lib usr/lib64 "$root"
  (cd "$work" && apt-get --quiet=2 --option APT::Sandbox::User=root download "$@") || return
  for package in "$work"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root" || return
  done
  rm -rf "$root"/usr/share/{doc,info,locale,man} "$root"/usr/lib/*/gconv
}

python_root() {
  local python
  python=$(apt-cache depends python3-minimal | sed -n 's/.*Depends: \(python3\..*\)-minimal$/\1/p')
  [ -n "$python" ] || return
  unpack "$python-minimal" "lib$python-minimal" "lib$python-stdlib" libc6 libexpat1 zlib1g busybox-static || return
  ln -s "$python" "$work/root/usr/bin/python3"
  ln -s busybox "$work/root/usr/bin/echo"
  rm -rf "$work/root/usr/share"
}

# libraries PACKAGE...: lists the libraries that the packages need, directly or not, except compilers and interpreters.
libraries() {
  local list='' next
  next=$(printf '%s\n' "$@" | sort -u)
  until [ "$next" = "$list" ]; do
    list=$next
    next=$({ echo "$list" && xargs apt-cache depends <<<"$list" | sed -nE 's/^ +(Pre)?Depends: (z?lib[^<>]+)$/\2/p' | grep -vE '^lib(llvm|perl|python)'; } | sort -u)
  done
  echo "$list"
}

node_root() {
  local version library packages scripts
  # The version of the distribution: an installed one may be from elsewhere, and cannot be downloaded.
  version=$(apt-cache madison nodejs | awk 'NR == 1 { print $3 }')
  [ -n "$version" ] || return
  library=$(apt-cache depends "nodejs=$version" | sed -n 's/.*Depends: \(libnode[0-9]*\)$/\1/p')
  [ -n "$library" ] || return
  mapfile -t packages < <(libraries "$library")
  mapfile -t scripts < <(apt-cache depends "$library" | sed -n 's/.*Depends: \(node-.*\)$/\1/p')
  unpack "nodejs=$version" "${packages[@]}" "${scripts[@]}"
}

postgres_root() {
  local postgres packages root=$work/root program
  postgres=$(apt-cache depends postgresql | sed -n 's/.*Depends: \(postgresql-[0-9]*\)$/\1/p')
  [ -n "$postgres" ] || return
  mapfile -t packages < <(libraries "$postgres" "${postgres/-/-client-}" coreutils dash tzdata)
  unpack "${packages[@]}" || return
  for program in "$root/usr/lib/postgresql"/*/bin/*; do
    ln -sfr "$program" "$root/usr/bin/${program##*/}"
  done
  ln -sf dash "$root/usr/bin/sh"
  mkdir -p "$root"/{etc,tmp,var/run/postgresql,var/lib/postgresql}
  chmod 1777 "$root"/{tmp,var/run/postgresql}
  echo "postgres:x:999:999::/var/lib/postgresql:/bin/sh" >"$root/etc/passwd"
}

# root NAME WHAT: builds the root file system of the image that a sample names, so that the sample is tested unchanged. It is kept.
root() {
  [ ! -e "$images/$1-root.tar" ] || return 0
  work=$(mktemp -d "$images/.work.XXXXXX")
  if "$1_root"; then
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --directory "$work/root" --file "$work/root.tar" .
    mv "$work/root.tar" "$images/$1-root.tar"
  else
    echo "No packages to build an image with $1 were found: the test of $2 is skipped." >&2
  fi
  rm -rf "$work"
}
trap 'rm -rf "$images"/.work.*' EXIT
# Without lists of packages, or with old ones, none can be downloaded.
[ -e "$images/python-root.tar" ] && [ -e "$images/node-root.tar" ] && [ -e "$images/postgres-root.tar" ] || apt-get --quiet=2 update || true
root python "controllers with hooks in Python"
root node "controllers with hooks in Node.js"
root postgres ActionSets
