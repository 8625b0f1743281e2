// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Millwright as users run it: installed from manifests/ with the image of "make image", on a cluster with a real node
// that runs containers. "make e2e" builds what the tests need and runs them.
//
// [TestMillwright] is the life of an installation: its parts run in this order, from the installation over an upgrade to the removal,
// and each part is in a file of its own. [TestFarm] is the same for the aggregated API server, which takes over from that of the tutorial.
package e2e
