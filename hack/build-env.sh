#!/usr/bin/env bash
# build-env.sh: prints the environment of go for builds. The compiler is a short process for each package, and its garbage collector takes a
# fifth of the CPU time of a first build: with half of the memory that is free, divided among the processes that run concurrently, it
# need not run. It prints nothing if there is little memory, if that is not known, or if the collector is configured already.
set -o errexit -o nounset -o pipefail

[ -z "${GOGC:-}${GOMEMLIMIT:-}" ] && [ -r /proc/meminfo ] || exit 0
free=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo) # MiB
limit=$((free / 2 / $(nproc)))
least=1024 most=3072 # few packages take more than the first
[ "$limit" -ge "$least" ] || exit 0
echo "GOGC=off GOMEMLIMIT=$((limit < most ? limit : most))MiB"
