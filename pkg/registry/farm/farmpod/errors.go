// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

func notFound(name string) error { return apierrors.NewNotFound(resource, name) }

// explain makes an error with Pods one with FarmPods. The text of the API server stays, except for the name of a Pod.
func explain(ctx context.Context, verb string, err error) error {
	var status apierrors.APIStatus
	switch {
	case ctx.Err() != nil:
		return apierrors.NewTimeoutError(fmt.Sprintf("%s of farmpods: the request has ended before the API server has answered about pods", verb), 0)
	case !errors.As(err, &status):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s of farmpods: asking the API server for pods: %v", verb, err))
	case apierrors.IsUnauthorized(err):
		// Unchanged, it would mean that the credentials of the caller are wrong.
		return apierrors.NewInternalError(fmt.Errorf("%s of farmpods: the API server does not accept the credentials of this server: %w", verb, err))
	case apierrors.IsForbidden(err):
		// The caller does not lack a right: this server does.
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s of farmpods: this server lacks a right, grant it as manifests/farm does: %v", verb, err))
	default:
		return &apierrors.StatusError{ErrStatus: rename(status.Status())}
	}
}

// rename makes the Status about a Pod one about its FarmPod. One that names no Pod stays.
func rename(status metav1.Status) metav1.Status {
	details := status.Details
	if details == nil || details.Kind != "pods" || details.Group != "" || details.Name == "" {
		return status
	}
	details = details.DeepCopy()
	status.Message = strings.Replace(status.Message,
		fmt.Sprintf("pods %q", details.Name), fmt.Sprintf("%s %q", resource, farm.FarmPodPrefix+details.Name), 1)
	details.Group, details.Kind, details.Name = resource.Group, resource.Resource, farm.FarmPodPrefix+details.Name
	details.UID = "" // that of the Pod
	status.Details = details
	return status
}
