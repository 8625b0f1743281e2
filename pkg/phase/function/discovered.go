// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// discovered is what the API server serves: its whole discovery, as of one time.
type discovered struct {
	meta.RESTMapper
	asked time.Time
	// available are the groups that have a version whose resources are known, and unavailable those that have one whose are not.
	available, unavailable sets.Set[string]
}

// discover returns the whole discovery: a cached one if it can be used.
func (m *Mapper) discover(ctx context.Context, began time.Time, finds func(*discovered) bool) (*discovered, error) {
	if known := m.known(); known.usable(began, finds) {
		return known.value, nil
	}
	m.asking.Lock()
	defer m.asking.Unlock()
	if known := m.known(); known.usable(began, finds) {
		return known.value, nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	asked := time.Now()
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, m.client)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	switch {
	case err != nil && !partial:
		return nil, fmt.Errorf("asking the API server what it serves: %w", err)
	case len(groups) == 0:
		return nil, errors.New("asking the API server what it serves: it lists no API group")
	}
	found := newDiscovered(groups, lists, failed)
	found.asked = asked
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = &answer[*discovered]{found, asked}
	return found, nil
}

func (m *Mapper) known() *answer[*discovered] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all
}

func newDiscovered(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) *discovered {
	d := &discovered{available: sets.New[string](), unavailable: sets.New[string]()}
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = list.APIResources
	}
	var all []*restmapper.APIGroupResources
	for _, group := range groups {
		one := &restmapper.APIGroupResources{Group: *group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range group.Versions {
			if list, known := resources[version.GroupVersion]; known {
				one.VersionedResources[version.Version] = list
				d.available.Insert(group.Name)
			}
		}
		all = append(all, one)
	}
	for version, err := range failed {
		if !apierrors.IsNotFound(err) { // it has been removed meanwhile
			d.unavailable.Insert(version.Group)
		}
	}
	d.RESTMapper = restmapper.NewDiscoveryRESTMapper(all)
	return d
}

// named returns the resource of a kind as users write it. Without a group it may be of any group; and a group may be the beginning of one.
func (d *discovered) named(name schema.GroupResource) (schema.GroupVersionResource, error) {
	kind, err := d.KindFor(name.WithVersion(""))
	if !meta.IsNoMatchError(err) {
		return d.mapped(kind, err)
	}
	perhaps := func(group string) bool { return strings.HasPrefix(group, name.Group) }
	if d.available.Has(name.Group) && name.Group != "" {
		perhaps = func(group string) bool { return group == name.Group }
	}
	return schema.GroupVersionResource{}, d.absent(err, name.Resource, perhaps)
}

// ofKind returns the resource of a kind of this very group.
func (d *discovered) ofKind(kind schema.GroupKind) (schema.GroupVersionResource, error) {
	mapping, err := d.RESTMapping(kind)
	if err != nil {
		return schema.GroupVersionResource{}, d.absent(err, kind.Kind, func(group string) bool { return group == kind.Group })
	}
	return mapping.Resource, nil
}

// ofResource returns a resource of this very group, in the version that is preferred.
func (d *discovered) ofResource(of schema.GroupResource) (schema.GroupVersionResource, error) {
	kinds, err := d.KindsFor(of.WithVersion(""))
	at := slices.IndexFunc(kinds, func(kind schema.GroupVersionKind) bool { return kind.Group == of.Group })
	if at >= 0 {
		return d.mapped(kinds[at], nil)
	}
	if err == nil {
		err = &meta.NoResourceMatchError{PartialResource: of.WithVersion("")}
	}
	return schema.GroupVersionResource{}, d.absent(err, of.Resource, func(group string) bool { return group == of.Group })
}

func (d *discovered) mapped(kind schema.GroupVersionKind, err error) (schema.GroupVersionResource, error) {
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	mapping, err := d.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}

// absent returns the error for a kind that is not found. If it may be of a group that is unavailable, it is not known whether it is served.
func (d *discovered) absent(err error, name string, perhapsOf func(group string) bool) error {
	groups := slices.DeleteFunc(slices.Sorted(maps.Keys(d.unavailable)), func(group string) bool { return !perhapsOf(group) })
	if !meta.IsNoMatchError(err) || len(groups) == 0 {
		return err
	}
	return waitForGroups(groups, fmt.Sprintf("no available API group serves %s, and it is not known what the others serve", name))
}
