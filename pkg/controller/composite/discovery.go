// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// lookUp asks the API server which of the resources it serves, and how.
func (c *Controller) lookUp(ctx context.Context, wanted []schema.GroupVersionResource) (map[schema.GroupVersionResource]resource, error) {
	found := map[schema.GroupVersionResource]resource{}
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, resource := range wanted {
		version := resource.GroupVersion()
		if _, asked := lists[version]; asked {
			continue
		}
		list, err := c.KubeClient.Discovery().ServerResourcesForGroupVersionWithContext(ctx, version.String())
		if apierrors.IsNotFound(err) {
			list, err = &metav1.APIResourceList{}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("asking the API server which resources of %s it serves: %w", version, err)
		}
		lists[version] = list
	}
	for _, wanted := range wanted {
		if r, ok := servedAs(wanted, lists[wanted.GroupVersion()].APIResources); ok {
			found[wanted] = r
		}
	}
	return found, nil
}

func servedAs(wanted schema.GroupVersionResource, list []metav1.APIResource) (resource, bool) {
	at := slices.IndexFunc(list, func(r metav1.APIResource) bool { return r.Name == wanted.Resource })
	if at < 0 {
		return resource{}, false
	}
	return resource{
		GroupVersionResource: wanted,
		Kind:                 list[at].Kind,
		Namespaced:           list[at].Namespaced,
		Status:               slices.ContainsFunc(list, func(r metav1.APIResource) bool { return r.Name == wanted.Resource+"/status" }),
	}, true
}

// watchDefinitions looks again at the CompositeControllers whose parents or children a CustomResourceDefinition defines, when it
// comes, changes or goes. Aggregated APIs are asked for now and then.
func (c *Controller) watchDefinitions() error {
	changed := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		definition, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		plural, group, _ := strings.Cut(definition.Name, ".")
		c.definitionChanged(schema.GroupResource{Group: group, Resource: plural})
	}
	_, err := c.Definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	})
	return err
}

func (c *Controller) definitionChanged(defined schema.GroupResource) {
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		return // a lister of a cache returns none
	}
	for _, cc := range all {
		for _, wanted := range resourcesOf(&cc.Spec) {
			if wanted.GroupResource() == defined {
				c.Objects.Retry(wanted)
				c.lookAgain(cc.Name)
				c.Enqueue(controllerKey(cc.Name))
			}
		}
	}
}

// resourcesOf are those that have to be served for a spec, whether it is valid or not.
func resourcesOf(spec *v1alpha1.CompositeControllerSpec) []schema.GroupVersionResource {
	parent, children := wanted(spec)
	return append(children, parent)
}
