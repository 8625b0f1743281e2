// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testcluster gives tests a real control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler of
// bin/cluster, with one simulated node, on which Pods become Running without containers. Build it once by "make bin/cluster".
//
// A package whose tests need it says so in its TestMain; its tests then share one cluster, which the first of them starts, each
// in namespaces of its own:
//
//	func TestMain(m *testing.M) {
//		testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds"))
//	}
//
//	func TestAPodIsMadeAgainWhenItIsDeleted(t *testing.T) {
//		t.Parallel()
//		cluster := testcluster.Shared(t)
//		namespace := cluster.Namespace(t)
//		client := kubernetes.NewForConfigOrDie(cluster.Config())
//		...
//	}
//
// What is tested with the rights of a ServiceAccount uses [Cluster.Account] instead of Config, [WithManifests] to install account and
// roles, and [WithAudit] to see what it asked for.
//
// A test that needs a cluster for itself, for example to stop it, calls [Start]. Tests that would disturb the others, but not each other,
// share one more: [NewLazy].
//
// "make test-unit" leaves out the packages whose tests import this one, and "make test-integration" runs only these: keep them
// in packages of their own, so that everything else can be tested in seconds.
package testcluster
