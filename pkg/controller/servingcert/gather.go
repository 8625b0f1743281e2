// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/certs"
)

// target is an APIService that refers to our Service.
type target struct {
	certs.Target
	object *unstructured.Unstructured
}

// secret reads a Secret from the API server; it returns nil if the Secret does not exist.
func (c *Controller) secret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	secret, err := c.kubeClient.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	default:
		return secret, nil
	}
}

// targets returns the APIServices that refer to our Service, sorted by name, so that all syncs have the same order. A certificate is
// wanted if there is one, or if the APIService of the farm still refers to another Service: before it is changed to refer to ours, a
// server has to be ready, and it waits for its certificate.
func (c *Controller) targets() (targets []target, wanted bool, err error) {
	for _, item := range c.apiServices.List() {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return nil, false, fmt.Errorf("reading APIServices: the cache has a %T", item)
		}
		observed, err := certs.ObserveTarget(object, c.service)
		if err != nil {
			return nil, false, err
		}
		if observed.IsForService() {
			targets = append(targets, target{observed, object})
		}
		wanted = wanted || observed.IsForService() || object.GetName() == apiServiceName
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.Name, b.Name) })
	return targets, wanted, nil
}
