// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package bareclient

import (
	"fmt"

	"millwright.dev/hack/bench/parents"
	"millwright.dev/hack/bench/traffic"
	appsv1 "millwright.dev/pkg/apis/apps/v1"
	crv1alpha1 "millwright.dev/pkg/apis/cr/v1alpha1"
	containersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
)

// kind is what has to be known of the objects that are worked on; the rest is in the recording.
type kind struct {
	// list is where they are, and children where that is which their requests wait for: paths with a place for the namespace.
	// Without children nothing waits.
	list, children string
	// childSuffix is what the name of a child has more than that of its object.
	childSuffix string
	// waitBefore tells what a request has waited for.
	waitBefore func(traffic.Request) (wait, error)
}

// kinds by the names of their resources.
var kinds = map[string]kind{
	"immortalcontainers": {
		list:        "/apis/" + containersv1alpha1.GroupVersion.String() + "/namespaces/%s/immortalcontainers",
		children:    "/api/v1/namespaces/%s/pods",
		childSuffix: "-immortalpod",
		waitBefore:  waitOfContainer,
	},
	"machines": {
		list:       "/apis/" + uselessv1alpha1.GroupVersion.String() + "/namespaces/%s/machines",
		waitBefore: func(traffic.Request) (wait, error) { return wait{}, nil }, // each goes on from the last answer
	},
	"helloapps": {
		list:       "/apis/" + appsv1.GroupVersion.String() + "/namespaces/%s/helloapps",
		children:   "/apis/apps/v1/namespaces/%s/deployments",
		waitBefore: waitOfApp,
	},
	"actionsets": {
		list:       "/apis/" + crv1alpha1.GroupVersion.String() + "/namespaces/%s/actionsets",
		waitBefore: func(traffic.Request) (wait, error) { return wait{}, nil }, // each goes on from the last answer
	},
	parents.Resource.Resource: {
		list:       "/apis/" + parents.Resource.GroupVersion().String() + "/namespaces/%s/" + parents.Resource.Resource,
		waitBefore: func(traffic.Request) (wait, error) { return wait{}, nil }, // only for the hook, which the bare client does not call
	},
}

func kindOf(resource string) (kind, error) {
	k, ok := kinds[resource]
	if !ok {
		return k, fmt.Errorf("requests about %s cannot be replayed", resource)
	}
	return k, nil
}
