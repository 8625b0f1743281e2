// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Millwright as its users meet it: installed from manifests/ with the image of "make image", on a cluster with a
// real node, on which containers run. "make e2e" builds what it needs and runs it.
//
// There is one test, [TestMillwright]: its parts are in the order in which a cluster lives, from the installation over an upgrade
// to the removal, and each is in a file of its own.
package e2e
