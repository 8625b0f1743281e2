// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// clearing is a Controller for an API server that serves these versions of Things.
func clearing(t *testing.T, api *fakeAPI, versions ...string) *Controller {
	t.Helper()
	s := newSyncing(t, api)
	client := fake.NewClientset()
	for _, version := range versions {
		discovery := client.Discovery().(*fakediscovery.FakeDiscovery)
		discovery.Resources = append(discovery.Resources, &metav1.APIResourceList{GroupVersion: "example.com/" + version, APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}}})
	}
	metadataClient, err := metadata.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s.KubeClient, s.metadata = client, metadataClient
	return s.Controller
}

// thing is a parent of the name.
func thing(name, metadata string) string {
	return strings.Replace(string(parentWith(metadata)), `"name":"thing"`, `"name":"`+name+`"`, 1)
}

var thingsRule = v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}

func TestOurFinalizerAloneIsRemovedFromAllParents(t *testing.T) {
	const ours = `"finalizers":["metacontroller.io/compositecontroller-cc"]`
	for _, versions := range [][]string{{"v1"}, {"v2"}, {"v1beta1", "v1"}} { // the objects are the same in each version
		t.Run(strings.Join(versions, ","), func(t *testing.T) {
			api := startFakeAPI(t, thing("thing", ours), thing("held", held), thing("theirs", `"finalizers":["example.com/theirs"]`), thing("zero", ours))
			c := clearing(t, api, versions...)
			if err := c.clearParents(t.Context(), thingsRule, "cc"); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string][]string{"thing": nil, "held": {"example.com/theirs"}, "theirs": {"example.com/theirs"}, "zero": nil} {
				if got := api.stored("things/" + name).GetFinalizers(); !slices.Equal(got, want) {
					t.Errorf("the finalizers of %s are %v, want %v", name, got, want)
				}
			}
			if did := api.did(); slices.ContainsFunc(did, func(request string) bool { return strings.Contains(request, "theirs") }) {
				t.Errorf("a parent without our finalizer was looked at: %v", did)
			}
		})
	}
}

func TestParentsThatAreGoneOrNotServedNeedNoClearing(t *testing.T) {
	api := startFakeAPI(t, thing("thing", held))
	c := clearing(t, api)
	if err := c.clearParents(t.Context(), thingsRule, "cc"); err != nil || len(api.did()) > 0 {
		t.Errorf("what is not served: %v", err)
	}
	if err := c.clearParents(t.Context(), v1alpha1.ResourceRule{APIVersion: "a/b/c", Resource: "things"}, "cc"); err != nil || len(api.did()) > 0 {
		t.Errorf("what is invalid: %v", err)
	}
	c = clearing(t, api, "v1")
	api.fails("GET things/thing", http.StatusNotFound, "gone")
	if err := c.clearParents(t.Context(), thingsRule, "cc"); err != nil {
		t.Errorf("what is gone: %v", err)
	}
}

func TestAParentThatCannotBeClearedIsAnError(t *testing.T) {
	for _, request := range []string{"GET things/thing", "PUT things/thing"} {
		api := startFakeAPI(t, thing("thing", held), thing("zero", held))
		c := clearing(t, api, "v1")
		api.fails(request, http.StatusForbidden, "no")
		if err := c.clearParents(t.Context(), thingsRule, "cc"); err == nil || !strings.Contains(err.Error(), "ns/thing") {
			t.Errorf("%s: the error is %v", request, err)
		}
	}
}
