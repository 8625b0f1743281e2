// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ReportWatchErrors makes an informer log in one line why it cannot list or watch its resource and what to do about it.
// It has to be called before the informer is started; on one that runs already it changes nothing.
func ReportWatchErrors(informer cache.SharedInformer, resource schema.GroupResource) {
	// The error means that the informer has started, and then its first user has set the same handler.
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if advice := watchAdvice(resource, err); advice != "" {
			klog.FromContext(ctx).Error(nil, advice, "resource", resource, "err", err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
}

// watchAdvice returns "" for transient errors.
func watchAdvice(resource schema.GroupResource, err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("The API server does not serve %s (any more): install its CustomResourceDefinition; retrying", resource)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("No permission to list and watch %s: bind the verbs list and watch to this account; retrying", resource)
	case apierrors.IsUnauthorized(err):
		return "The API server does not accept our credentials: renew the kubeconfig or the ServiceAccount's token; retrying"
	default:
		return ""
	}
}
