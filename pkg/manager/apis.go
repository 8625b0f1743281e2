// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

const (
	// discoveryInterval is how soon a newly installed API is noticed.
	discoveryInterval = time.Second
	// recheckInterval is how soon the deletion of an API that no informer lists is noticed.
	recheckInterval = 10 * time.Second
	// aggregation is the group of the objects that register other API servers with kube-apiserver. It has no CustomResourceDefinition.
	aggregation = "apiregistration.k8s.io"
	// discoveryTimeout is how long an API server may take to answer before we call it unreachable.
	discoveryTimeout = 10 * time.Second
)

// waitForAPIs returns nil when the API server serves all resources, or an error when the context has ended. It logs what it
// waits for, and reports it to waiting.
func waitForAPIs(ctx context.Context, client discovery.DiscoveryInterfaceWithContext, required []schema.GroupVersionResource,
	waiting func(message string),
) error {
	var complaint complaint
	return wait.PollUntilContextCancel(ctx, discoveryInterval, true, func(ctx context.Context) (done bool, _ error) {
		requestCtx, cancel := context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		message, err := missingAPI(requestCtx, client, required)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if message != "" {
			waiting(message)
			complaint.say(klog.FromContext(ctx), message+"; retrying", err)
			return false, nil
		}
		complaint.settle(klog.FromContext(ctx), "The API server serves the missing APIs now")
		return true, nil
	})
}

// recheckAPIs looks at the resources again until the context has ended. It logs which of them the API server does not serve any more, and reports it to
// waiting, or "" if the API server serves all. An API server that gives no answer is noticed by the informers: what was reported before stays.
func recheckAPIs(ctx context.Context, client discovery.DiscoveryInterfaceWithContext, required func() []schema.GroupVersionResource,
	waiting func(message string),
) {
	var complaint complaint
	_ = wait.PollUntilContextCancel(ctx, recheckInterval, false, func(ctx context.Context) (done bool, _ error) {
		requestCtx, cancel := context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		message, err := missingAPI(requestCtx, client, required())
		if err != nil {
			return false, nil
		}
		waiting(message)
		if message != "" {
			complaint.say(klog.FromContext(ctx), message, nil)
		} else {
			complaint.settle(klog.FromContext(ctx), "The API server serves the missing APIs now")
		}
		return false, nil
	})
}

// missingAPI returns why the resources cannot be used and what to do about it, with the error if there was one. It returns
// "" if all are served.
func missingAPI(ctx context.Context, client discovery.DiscoveryInterfaceWithContext, required []schema.GroupVersionResource) (string, error) {
	served := map[schema.GroupVersion][]metav1.APIResource{}
	for _, resource := range required {
		version := resource.GroupVersion()
		if _, asked := served[version]; !asked {
			list, err := client.ServerResourcesForGroupVersionWithContext(ctx, version.String())
			switch {
			case apierrors.IsNotFound(err):
				return notServed(ctx, client, resource)
			case err != nil:
				return discoveryAdvice(err), err
			}
			served[version] = list.APIResources
		}
		if !slices.ContainsFunc(served[version], func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
			return notInstalled(resource), nil
		}
	}
	return "", nil
}

// notServed distinguishes an API that is not there from one that is there in other versions.
func notServed(ctx context.Context, client discovery.DiscoveryInterfaceWithContext, resource schema.GroupVersionResource) (string, error) {
	groups, err := client.ServerGroupsWithContext(ctx)
	if err != nil {
		return discoveryAdvice(err), err
	}
	for _, group := range groups.Groups {
		if group.Name != resource.Group {
			continue
		}
		var versions []string
		for _, v := range group.Versions {
			versions = append(versions, v.Version)
		}
		return fmt.Sprintf("Waiting for version %s of %s: the API server serves only %s of this group, so the CustomResourceDefinition is that of another release: "+
			"install this release's (make install, or kubectl apply --server-side -f manifests/00-crds)",
			resource.Version, resource.GroupResource(), strings.Join(versions, ", ")), nil
	}
	return notInstalled(resource), nil
}

func notInstalled(resource schema.GroupVersionResource) string {
	if resource.Group == aggregation {
		return fmt.Sprintf("Waiting for %s: this API server has no aggregation layer; exclude the controller that needs it with --controllers=*,-NAME", resource.GroupResource())
	}
	return fmt.Sprintf("Waiting for the CustomResourceDefinition %s: the API server does not serve %s in version %s: "+
		"install it (make install, or kubectl apply --server-side -f manifests/00-crds)",
		resource.GroupResource(), resource.Resource, resource.Version)
}

func discoveryAdvice(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "Waiting for the permission to discover APIs: bind the ClusterRole system:discovery to this account"
	case apierrors.IsUnauthorized(err):
		return "Waiting for valid credentials: the API server does not accept ours; renew the kubeconfig or the ServiceAccount's token"
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return "Waiting for the API server: it cannot be reached; check that it runs, and the address in the kubeconfig"
	default:
		return "Waiting for the API server: it cannot list the APIs that it serves"
	}
}
