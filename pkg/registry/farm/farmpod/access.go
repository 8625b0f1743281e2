// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

// allow reports whether the caller may do the same with Pods, if that is asked. pod is empty for all Pods of the namespace.
func (r *REST) allow(ctx context.Context, verb, pod string) error {
	if r.access == nil {
		return nil
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("%s of farmpods: the request has no user", verb))
	}
	namespace := request.NamespaceValue(ctx)
	decision, why, err := r.access.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: verb, Namespace: namespace, APIVersion: "v1", Resource: string(corev1.ResourcePods), Name: pod, ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("asking whether User %q may %s pods, without which there are no farmpods: %w", caller.GetName(), verb, err))
	default:
		return forbidden(caller.GetName(), verb, namespace, pod, why)
	}
}

func forbidden(caller, verb, namespace, pod, why string) error {
	where, name := "at the cluster scope", ""
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	if pod != "" {
		name = farm.FarmPodPrefix + pod
	}
	text := fmt.Sprintf("User %q cannot %s resource \"pods\" in API group \"\" %s, and this server serves farmpods only to users who can", caller, verb, where)
	if why != "" {
		text += ": " + why
	}
	return apierrors.NewForbidden(resource, name, errors.New(text))
}

// selectedPod is the one Pod that is selected by its name, as the API server sees it when it authorizes a list or a watch.
func selectedPod(options *internalversion.ListOptions) string {
	if options == nil || options.FieldSelector == nil {
		return ""
	}
	name, _ := options.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
	pod, _ := podName(name)
	return pod
}
