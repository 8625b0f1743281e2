// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// fakeServer is the discovery of an API server. Its requests can be counted, and some of them fail.
type fakeServer struct {
	*fakediscovery.FakeDiscovery
	// down are the errors of versions of groups whose API server does not answer.
	down map[string]error
	// removed is a version of a group that is only in aggregated discovery still.
	removed string
	// versions and whole count the requests for one version of a group, and for all groups.
	versions, whole atomic.Int32
}

// serverWith returns the discovery of an API server with these resources.
func serverWith(lists ...*metav1.APIResourceList) *fakeServer {
	return &fakeServer{FakeDiscovery: &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}, down: map[string]error{}}
}

func (f *fakeServer) ServerResourcesForGroupVersionWithContext(ctx context.Context, version string) (*metav1.APIResourceList, error) {
	f.versions.Add(1)
	if err := f.down[version]; err != nil {
		return nil, err
	}
	if version == f.removed {
		version = ""
	}
	return f.FakeDiscovery.ServerResourcesForGroupVersionWithContext(ctx, version)
}

// ServerGroupsWithContext lists also the groups whose server is down.
func (f *fakeServer) ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error) {
	f.whole.Add(1)
	groups, err := f.FakeDiscovery.ServerGroupsWithContext(ctx)
	for down := range f.down {
		listed := slices.ContainsFunc(f.Resources, func(l *metav1.APIResourceList) bool { return l.GroupVersion == down })
		if version, _ := schema.ParseGroupVersion(down); err == nil && !listed {
			of := metav1.GroupVersionForDiscovery{GroupVersion: down, Version: version.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{of}, PreferredVersion: of})
		}
	}
	return groups, err
}

// aggregatedServer answers with aggregated discovery, in which a group whose server is down is stale.
type aggregatedServer struct{ *fakeServer }

func (f aggregatedServer) GroupsAndMaybeResourcesWithContext(ctx context.Context) (
	*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error,
) {
	groups, err := f.fakeServer.ServerGroupsWithContext(ctx)
	lists, stale := map[schema.GroupVersion]*metav1.APIResourceList{}, map[schema.GroupVersion]error{}
	for _, list := range f.Resources {
		version, _ := schema.ParseGroupVersion(list.GroupVersion)
		lists[version] = list
	}
	for down := range f.down {
		version, _ := schema.ParseGroupVersion(down)
		delete(lists, version)
		stale[version] = discovery.StaleGroupVersionError{}
	}
	return groups, lists, stale, err
}

// served returns the resources of these kinds, such as Pod, and Pod/scale for a subresource. Node and Namespace are cluster-scoped.
func served(version string, kinds ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, text := range kinds {
		kind, subresource, isSubresource := strings.Cut(text, "/")
		plural, singular := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
		resource := metav1.APIResource{
			Name: plural.Resource, SingularName: singular.Resource, Kind: kind, Namespaced: kind != "Node" && kind != "Namespace",
		}
		if isSubresource {
			resource.Name, resource.Kind = plural.Resource+"/"+subresource, "Scale"
		}
		list.APIResources = append(list.APIResources, resource)
	}
	return list
}
