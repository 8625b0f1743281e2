#!/usr/bin/env bash
# build-flags.sh: prints the flags of go for all programs. They are the same in both modules, because go compiles a package that programs
# share again for each set of flags. Debug information takes a fifth of the time and of the cache: only our own packages have it.
set -o errexit -o nounset -o pipefail

echo "-trimpath -gcflags=all=-dwarf=false -gcflags=millwright.dev/...="
