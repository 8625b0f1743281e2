# shellcheck shell=sh
# go-env.sh: the environment of go. Every script that runs go sources this file, and the Makefile exports what it sets. Go compiles a package
# again for each set of flags, and -race is one more: with one set for programs, vet, linters, generators and the tests of all modules,
# Kubernetes' libraries are compiled once for each of the two, not a dozen times.
#
# Debug information takes a fifth of the time and of the cache: only our own packages have it. With -trimpath, what was compiled in one clone is
# used in every other. Flags of the user, also of go env -w, come last, so that they win.

export CGO_ENABLED=0 # with -race it must be 1

go_flags='-trimpath -gcflags=all=-dwarf=false -gcflags=millwright.dev/...='
user_flags=$(go env GOFLAGS 2>/dev/null) || true
case " $user_flags " in
*" $go_flags "*) export GOFLAGS="$user_flags" ;;
*) export GOFLAGS="$go_flags${user_flags:+ $user_flags}" ;;
esac
unset go_flags user_flags
