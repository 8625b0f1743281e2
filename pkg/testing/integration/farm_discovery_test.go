// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/testing/patience"
)

// httpGet sends a GET, and returns the response with its body. It tries again while the server limits clients of its address, as client-go does: parallel
// tests have one address.
func httpGet(t *testing.T, config *rest.Config, path string, header map[string]string) (response *http.Response, body []byte) {
	t.Helper()
	complaint := patience.Eventually(t.Context(), func() string {
		if response, body = httpGetOnce(t, config, path, header); response.StatusCode == http.StatusTooManyRequests {
			return fmt.Sprintf("GET %s: got %s: %s", path, response.Status, body)
		}
		return ""
	})
	if complaint != "" {
		t.Fatal(complaint)
	}
	return response, body
}

func httpGetOnce(t *testing.T, config *rest.Config, path string, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

const discoveryV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// wantedResources are the resources that discovery shows, with sorted verbs. A kind without group and version is of the group of the farm.
var wantedResources = []apidiscoveryv2.APIResourceDiscovery{
	{
		Resource: "farmpods", ResponseKind: &metav1.GroupVersionKind{Kind: "FarmPod"}, Scope: apidiscoveryv2.ScopeNamespace,
		SingularResource: "farmpod", Verbs: []string{"get", "list", "watch"}, ShortNames: []string{"fp"}, Categories: []string{"farm", "millwright"},
	},
	{
		Resource: "llamas", ResponseKind: &metav1.GroupVersionKind{Kind: "Llama"}, Scope: apidiscoveryv2.ScopeNamespace,
		SingularResource: "llama", Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		ShortNames: []string{"ll"}, Categories: []string{"farm", "millwright"},
	},
}

func TestFarmAggregatedDiscovery(t *testing.T) {
	e := inSharedFarm(t)
	for name, config := range map[string]*rest.Config{"the cluster": e.cluster.Config(), "the server": e.farm.replicas[0].as(e.cluster.Config())} {
		t.Run(name, func(t *testing.T) {
			response, body := httpGet(t, config, "/apis", map[string]string{"Accept": discoveryV2})
			var list apidiscoveryv2.APIGroupDiscoveryList
			if err := json.Unmarshal(body, &list); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			i := slices.IndexFunc(list.Items, func(group apidiscoveryv2.APIGroupDiscovery) bool { return group.Name == "farm.example.com" })
			if i < 0 || len(list.Items[i].Versions) != 1 {
				t.Fatalf("got %s, want farm.example.com in one version", body)
			}
			if version := list.Items[i].Versions[0]; version.Version != "v1alpha" || version.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
				t.Fatalf("got %s, want v1alpha, not stale", body)
			}
			resources := list.Items[i].Versions[0].Resources
			for i := range resources {
				slices.Sort(resources[i].Verbs)
			}
			slices.SortFunc(resources, func(a, b apidiscoveryv2.APIResourceDiscovery) int { return strings.Compare(a.Resource, b.Resource) })
			if diff := cmp.Diff(wantedResources, resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			again, _ := httpGet(t, config, "/apis", map[string]string{"Accept": discoveryV2, "If-None-Match": response.Header.Get("ETag")})
			if response.Header.Get("ETag") == "" || again.StatusCode != http.StatusNotModified {
				t.Errorf("request with the ETag %q: got %s, want 304", response.Header.Get("ETag"), again.Status)
			}
		})
	}
}

func TestFarmLegacyDiscovery(t *testing.T) {
	e := inSharedFarm(t)
	for name, config := range map[string]*rest.Config{"the cluster": e.cluster.Config(), "the server": e.farm.replicas[1].as(e.cluster.Config())} {
		t.Run(name, func(t *testing.T) {
			var groups metav1.APIGroupList
			_, body := httpGet(t, config, "/apis", map[string]string{"Accept": "application/json"})
			if err := json.Unmarshal(body, &groups); err != nil {
				t.Fatal(err)
			}
			version := metav1.GroupVersionForDiscovery{GroupVersion: "farm.example.com/v1alpha", Version: "v1alpha"}
			if !slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool {
				return group.Name == "farm.example.com" && group.PreferredVersion == version
			}) {
				t.Errorf("got groups %s, want farm.example.com too", body)
			}
			var group metav1.APIGroup
			_, body = httpGet(t, config, "/apis/farm.example.com", nil)
			if err := json.Unmarshal(body, &group); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(group.Versions, []metav1.GroupVersionForDiscovery{version}) {
				t.Errorf("got group %s, want one version", body)
			}
			var resources metav1.APIResourceList
			_, body = httpGet(t, config, "/apis/farm.example.com/v1alpha", nil)
			if err := json.Unmarshal(body, &resources); err != nil {
				t.Fatal(err)
			}
			var got, wanted []string
			for _, r := range resources.APIResources {
				slices.Sort(r.Verbs)
				got = append(got, fmt.Sprint(r.Name, r.SingularName, r.Namespaced, r.Kind, []string(r.Verbs), r.ShortNames, r.Categories))
			}
			for _, r := range wantedResources {
				wanted = append(wanted, fmt.Sprint(r.Resource, r.SingularResource, true, r.ResponseKind.Kind, r.Verbs, r.ShortNames, r.Categories))
			}
			slices.Sort(got)
			if diff := cmp.Diff(wanted, got); diff != "" || resources.GroupVersion != version.GroupVersion {
				t.Errorf("resources of %q (-want +got):\n%s", resources.GroupVersion, diff)
			}
		})
	}
}

func TestFarmOpenAPI(t *testing.T) {
	e := inSharedFarm(t)
	// The cluster fetches the document of an APIService when it is created, and then from time to time.
	e.eventually(func() string {
		_, body := httpGet(t, e.cluster.Config(), "/openapi/v2", map[string]string{"Accept": "application/json"})
		for _, wanted := range []string{"/apis/farm.example.com/v1alpha/namespaces/{namespace}/llamas/{name}", "height at the shoulder"} {
			if !strings.Contains(string(body), wanted) {
				return "the OpenAPI v2 document of the cluster lacks " + wanted
			}
		}
		return ""
	})
	for name, config := range map[string]*rest.Config{"the cluster": e.cluster.Config(), "the server": e.farm.replicas[0].as(e.cluster.Config())} {
		t.Run(name, func(t *testing.T) {
			_, body := httpGet(t, config, "/openapi/v3", nil)
			var index struct {
				Paths map[string]struct{ ServerRelativeURL string }
			}
			if err := json.Unmarshal(body, &index); err != nil {
				t.Fatal(err)
			}
			path := index.Paths["apis/farm.example.com/v1alpha"].ServerRelativeURL
			if !strings.Contains(path, "hash=") {
				t.Fatalf("URL of the group's document: got %q, want a hash in it", path)
			}
			_, body = httpGet(t, config, path, nil)
			var document struct {
				Components struct {
					Schemas map[string]struct {
						Properties map[string]struct{ Type, Format string }
						Gvk        []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
					}
				}
				Paths map[string]map[string]any
			}
			if err := json.Unmarshal(body, &document); err != nil {
				t.Fatal(err)
			}
			spec := document.Components.Schemas["dev.millwright.pkg.apis.farm.v1alpha.LlamaSpec"]
			for _, field := range []string{"weight", "height"} {
				if got := spec.Properties[field]; got.Type != "number" || got.Format != "double" {
					t.Errorf("spec.%s: got %+v, want a double", field, got)
				}
			}
			want := []metav1.GroupVersionKind{{Group: "farm.example.com", Version: "v1alpha", Kind: "Llama"}}
			if got := document.Components.Schemas["dev.millwright.pkg.apis.farm.v1alpha.Llama"].Gvk; !slices.Equal(got, want) {
				t.Errorf("kinds of the schema of Llama: got %v, want %v", got, want)
			}
			if _, writes := document.Paths["/apis/farm.example.com/v1alpha/namespaces/{namespace}/farmpods/{name}"]["put"]; writes {
				t.Error("the document has a PUT of FarmPods")
			}
		})
	}
}
