// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// discoveryTimeout is how long the API server has to answer which resources of a group it serves. It passes the question on to an aggregated API.
const discoveryTimeout = 10 * time.Second

// discover asks the API server which of the resources it serves, and how. Its error is a *parent.DiscoveryError if that does not answer for one group.
func (c *Controller) discover(ctx context.Context, wanted []schema.GroupVersionResource) (map[schema.GroupVersionResource]parent.Resource, error) {
	found := map[schema.GroupVersionResource]parent.Resource{}
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, resource := range wanted {
		version := resource.GroupVersion()
		if _, asked := lists[version]; asked {
			continue
		}
		list, err := c.resourcesIn(ctx, version)
		switch {
		case isUnavailable(err):
			return nil, &parent.DiscoveryError{Group: version, Err: err}
		case err != nil:
			return nil, fmt.Errorf("asking the API server which resources of %s it serves: %w", version, err)
		}
		lists[version] = list
	}
	for _, wanted := range wanted {
		if r, ok := find(wanted, lists[wanted.GroupVersion()].APIResources); ok {
			found[wanted] = r
		}
	}
	return found, nil
}

func (c *Controller) resourcesIn(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	list, err := c.KubeClient.Discovery().ServerResourcesForGroupVersionWithContext(ctx, version.String())
	if apierrors.IsNotFound(err) {
		return &metav1.APIResourceList{}, nil
	}
	return list, err
}

// isUnavailable reports whether an error is about the group that was asked for: no connection, and an API server with too many requests, concern every
// request.
func isUnavailable(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) || errors.Is(err, context.DeadlineExceeded)
}

func find(wanted schema.GroupVersionResource, list []metav1.APIResource) (parent.Resource, bool) {
	at := slices.IndexFunc(list, func(r metav1.APIResource) bool { return r.Name == wanted.Resource })
	if at < 0 {
		return parent.Resource{}, false
	}
	return parent.Resource{
		GroupVersionResource: wanted,
		Kind:                 list[at].Kind,
		Namespaced:           list[at].Namespaced,
		Status:               slices.ContainsFunc(list, func(r metav1.APIResource) bool { return r.Name == wanted.Resource+"/status" }),
	}, true
}

// inServedVersion returns a resource in a version that the API server serves: the given one, or another one of its group. It returns false if
// there is none.
func (c *Controller) inServedVersion(ctx context.Context, of schema.GroupVersionResource) (schema.GroupVersionResource, bool, error) {
	candidates := []schema.GroupVersionResource{of}
	asking, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	groups, err := c.KubeClient.Discovery().ServerGroupsWithContext(asking)
	if err != nil {
		return of, false, fmt.Errorf("asking the API server in which versions it serves %s: %w", of.GroupResource(), err)
	}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if group.Name == of.Group && version.Version != of.Version {
				candidates = append(candidates, of.GroupResource().WithVersion(version.Version))
			}
		}
	}
	served, err := c.discover(ctx, candidates)
	if err != nil {
		return of, false, err
	}
	for _, candidate := range candidates {
		if _, found := served[candidate]; found {
			return candidate, true, nil
		}
	}
	return of, false, nil
}

// errDefinitionsUnknown is the error of a question about a CustomResourceDefinition before they are known.
var errDefinitionsUnknown = errors.New("the CustomResourceDefinitions are not listed yet")

// definedIn returns a function that reports whether a CustomResourceDefinition defines a resource.
func definedIn(definitions cache.SharedIndexInformer) func(schema.GroupResource) (bool, error) {
	return func(of schema.GroupResource) (bool, error) {
		if !definitions.HasSynced() {
			return false, errDefinitionsUnknown
		}
		_, exists, err := definitions.GetStore().GetByKey(of.String())
		return exists, err
	}
}

// watchDefinitions queues the declarations whose parents or children a CustomResourceDefinition defines when it is added, changed or
// deleted. For aggregated APIs the API server is asked in intervals.
func (c *Controller) watchDefinitions() error {
	_, err := c.Definitions.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) { c.definitionChanged(nil, definition(obj), isInInitialList) },
		UpdateFunc: func(before, after any) {
			c.definitionChanged(definition(before), definition(after), false)
			c.ownDefinitionChanged(definition(before), definition(after))
		},
		DeleteFunc: func(obj any) { c.definitionChanged(definition(obj), nil, false) },
	})
	return err
}

// definition returns the metadata of a CustomResourceDefinition, as an informer passes it.
func definition(obj any) *metav1.PartialObjectMetadata {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return obj.(*metav1.PartialObjectMetadata)
}

// isRedefined reports whether a definition has another spec than before. One that was added or deleted has not.
func isRedefined(before, after *metav1.PartialObjectMetadata) bool {
	return before != nil && after != nil && (before.UID != after.UID || before.Generation != after.Generation)
}

// definitionChanged lists what a definition defines again, unless only its status has changed, and queues the declarations that it concerns.
// One that is in the initial list has been there for a while.
func (c *Controller) definitionChanged(before, after *metav1.PartialObjectMetadata, isInInitialList bool) {
	some := cmp.Or(after, before)
	plural, group, _ := strings.Cut(some.Name, ".")
	defined := schema.GroupResource{Group: group, Resource: plural}
	c.Objects.Retry(defined)
	redefined := isRedefined(before, after)
	if redefined {
		c.Objects.Reload(defined)
	}
	now := time.Now()
	c.mu.Lock()
	for _, parents := range c.running {
		if parents.Defined(defined); redefined {
			parents.Redefined(defined) // after Reload: it queues parents that must not be synced before it has ended
		}
	}
	c.mu.Unlock()
	for _, d := range c.Declarations.List() {
		for _, wanted := range resourcesOf(d) {
			if wanted.GroupResource() == defined {
				s := c.state(d.Name)
				if s.rediscover.Store(true); !isInInitialList {
					s.defined.Store(&now)
				}
				c.Enqueue(c.declarationKey(d.Name))
			}
		}
		isDefined := func(of v1alpha1.ResourceRule) bool {
			resource, err := parent.ResourceOf(of)
			return err == nil && resource.GroupResource() == defined
		}
		if slices.ContainsFunc(d.Status.Finalized, isDefined) {
			c.Enqueue(c.declarationKey(d.Name)) // perhaps finalizers wait for it
		}
	}
}

// resourcesOf returns the resources that a declaration needs, whether it is valid or not.
func resourcesOf(d *parent.Declaration) []schema.GroupVersionResource {
	return append(d.ChildResources(), d.ParentResources()...)
}
