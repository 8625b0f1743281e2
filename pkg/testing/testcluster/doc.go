// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testcluster gives tests a real control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler of
// bin/cluster, with one simulated node, on which Pods become Running without containers. Build it once by "make bin/cluster".
//
// A package whose tests need a cluster calls [Main] in its TestMain. Its tests then share one cluster, which the first of them starts.
// Each test has its own namespaces:
//
//	func TestMain(m *testing.M) {
//		testcluster.Main(m, testcluster.WithCRDs("manifests/00-crds"))
//	}
//
//	func TestDeletedPodIsReplaced(t *testing.T) {
//		t.Parallel()
//		cluster := testcluster.Shared(t)
//		namespace := cluster.Namespace(t)
//		client := kubernetes.NewForConfigOrDie(cluster.Config())
//		...
//	}
//
// A test of a ServiceAccount's rights uses [Cluster.Account] instead of Config, [WithManifests] to install the account and its roles, and
// [WithAudit] to read its requests.
//
// A test that needs its own cluster, for example to stop it, calls [Start]. Tests that would disturb the others, but not each other, share
// one more: [NewLazy].
//
// "make test-unit" leaves out the packages whose tests import this one, and "make test-integration" runs only these. Keep such tests in
// their own packages, so that all others run in seconds.
package testcluster
