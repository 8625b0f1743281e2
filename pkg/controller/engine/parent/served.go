// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/related"
)

// servedResources is how the API server serves the resources that customize hooks name. The zero value is empty.
type servedResources struct {
	mu    sync.Mutex
	known map[schema.GroupVersionResource]related.Resource
	// missing are the parents that need a resource which is not served.
	missing map[schema.GroupResource]map[Key]struct{}
}

// find returns how resources are served, and asks the API server for those that are not known. Those that it does not serve are not in the result:
// the parent is returned by defined when a definition of theirs changes.
func (r *servedResources) find(
	ctx context.Context, parent Key, wanted []schema.GroupVersionResource,
	discover func(context.Context, []schema.GroupVersionResource) (map[schema.GroupVersionResource]Resource, error),
) (map[schema.GroupVersionResource]related.Resource, error) {
	found := map[schema.GroupVersionResource]related.Resource{}
	var unknown []schema.GroupVersionResource
	r.mu.Lock()
	for _, of := range wanted {
		if served, ok := r.known[of]; ok {
			found[of] = served
		} else {
			unknown = append(unknown, of)
			r.addMissing(of.GroupResource(), parent) // before the API server is asked: a definition may change meanwhile
		}
	}
	r.mu.Unlock()
	if len(unknown) == 0 {
		return found, nil
	}
	served, err := discover(ctx, unknown)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, resource := range served {
		found[of] = related.Resource{Kind: resource.Kind, Namespaced: resource.Namespaced}
		if r.known == nil {
			r.known = map[schema.GroupVersionResource]related.Resource{}
		}
		r.known[of] = found[of]
		delete(r.missing[of.GroupResource()], parent)
	}
	return found, nil
}

func (r *servedResources) addMissing(of schema.GroupResource, parent Key) {
	if r.missing == nil {
		r.missing = map[schema.GroupResource]map[Key]struct{}{}
	}
	if r.missing[of] == nil {
		r.missing[of] = map[Key]struct{}{}
	}
	r.missing[of][parent] = struct{}{}
}

// defined forgets how a resource is served, because its definition has changed. It returns the parents that have missed it.
func (r *servedResources) defined(of schema.GroupResource) (parents []Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for resource := range r.known {
		if resource.GroupResource() == of {
			delete(r.known, resource)
		}
	}
	parents = slices.Collect(maps.Keys(r.missing[of]))
	delete(r.missing, of)
	return parents
}

// forget forgets a parent.
func (r *servedResources) forget(parent Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, parents := range r.missing {
		if delete(parents, parent); len(parents) == 0 {
			delete(r.missing, of)
		}
	}
}
