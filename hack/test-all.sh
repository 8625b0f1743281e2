#!/usr/bin/env bash
# test-all.sh: everything that can be tried, once: what .ci/run does, and what not every change has time for. It takes hours, on Linux as root,
# with nothing else to do. It prints how long each part took.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/parts.sh

part build make build bin/leash bin/bench bin/cluster
part compile hack/compile.sh
part verify hack/verify.sh all
# For both architectures: what differs is found by compiling.
part image make image
part test make test RACE=yes PARTS="unit integration perturbation-all run e2e node cluster chart"
part random make test PARTS="random fuzz"
part memory make test PARTS=memory
part bench make bench BENCH_FLAGS=--quick
finish
