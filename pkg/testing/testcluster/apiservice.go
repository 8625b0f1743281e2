// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"millwright.dev/pkg/testing/patience"
)

// AwaitAPIService waits until the APIService of the version is available, and until kube-apiserver has read which resources it has. kube-apiserver
// does that afterwards, and again with a growing delay if the server did not answer before; meanwhile kubectl does not find the resources.
func (c *Cluster) AwaitAPIService(t testing.TB, version schema.GroupVersion) {
	t.Helper()
	c.Kubectl(t, "wait", "--for=condition=Available", patience.Timeout, "apiservice", version.Version+"."+version.Group)
	client, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	complaint := patience.Eventually(t.Context(), func() string {
		_, resources, failed, err := client.GroupsAndMaybeResourcesWithContext(t.Context())
		if err != nil || resources[version] == nil {
			return fmt.Sprintf("%v, %v", err, failed)
		}
		return ""
	})
	if complaint != "" {
		t.Fatalf("waiting until kube-apiserver has read the resources of %s: %s", version, complaint)
	}
}
