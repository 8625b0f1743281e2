// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// explain returns what an error of the API server of the records means for the objects: that one does not exist or exists already
// is an error of package storage; what this server lacks (the CRD, rights, a connection) is not a fault of the caller; and all else
// is passed on, speaking of objects.
func (r *resource) explain(err error, at location) error {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(fmt.Sprintf("the time of the request was over before the API server that keeps %s had answered", r.objects), 0)
	case !errors.As(err, &status):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the API server that keeps %s does not answer: %v", r.objects, err))
	}
	answer := status.Status()
	switch {
	case r.isOfRecord(answer, metav1.StatusReasonNotFound):
		return storage.NewKeyNotFoundError(at.key, 0)
	case r.isOfRecord(answer, metav1.StatusReasonAlreadyExists):
		return storage.NewKeyExistsError(at.key, 0)
	}
	return &apierrors.StatusError{ErrStatus: r.translate(answer)}
}

// isOfRecord reports whether a Status is about one record.
func (r *resource) isOfRecord(status metav1.Status, reason metav1.StatusReason) bool {
	details := status.Details
	return status.Reason == reason && details != nil &&
		details.Name != "" && details.Group == r.records.Group && details.Kind == r.records.Resource
}

// translate makes of a Status about records one about objects.
func (r *resource) translate(status metav1.Status) metav1.Status {
	if complaint := r.own(status); complaint != "" {
		return apierrors.NewServiceUnavailable(complaint).Status()
	}
	status.Message = r.rename(status.Message)
	status = withDelay(status)
	if details := status.Details; details != nil && details.Group == r.records.Group {
		translated := *details
		switch translated.Kind {
		case r.records.Resource:
			translated.Group, translated.Kind = r.objects.Group, r.objects.Resource
		case r.recordKind:
			translated.Group, translated.Kind = r.objects.Group, r.objectKind.Kind
		}
		status.Details = &translated
	}
	return status
}

// leastDelay in seconds, where an API server that asks for patience does not give a delay.
const leastDelay = 1

// withDelay adds a delay before the next request where the API server of the records has too much to do, or fills a cache ("storage is
// (re)initializing"). It is not asked again here: clients repeat a request of any verb that is answered by 429 and a Retry-After header,
// which is made of the details, and bound how often. Two that repeat would multiply the requests.
func withDelay(status metav1.Status) metav1.Status {
	if status.Code != http.StatusTooManyRequests || status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		return status
	}
	details := metav1.StatusDetails{}
	if status.Details != nil {
		details = *status.Details
	}
	details.RetryAfterSeconds = leastDelay
	status.Details = &details
	return status
}

// rename makes a message about records one about objects. A quota that counts records keeps its name.
func (r *resource) rename(message string) string {
	records := r.records.GroupResource().String()
	if rest, found := strings.CutPrefix(message, records); found {
		message = r.objects.String() + rest
	}
	record := schema.GroupKind{Group: r.records.Group, Kind: r.recordKind}.String()
	return strings.NewReplacer(records+` "`, r.objects.String()+` "`, record+` "`, r.objectKind.GroupKind().String()+` "`).Replace(message)
}

// own returns errors of this server, not of its caller, and what to do about them.
func (r *resource) own(status metav1.Status) string {
	records := r.records.GroupResource()
	switch {
	case status.Code == http.StatusUnauthorized:
		return fmt.Sprintf("the API server that keeps %s does not know this server any more: give it the kubeconfig or the ServiceAccount of manifests/farm: %s",
			r.objects, status.Message)
	case status.Code == http.StatusMethodNotAllowed, status.Code == http.StatusNotFound && !isNamed(status):
		return fmt.Sprintf("%s cannot be kept, since the CustomResourceDefinition %s is not installed or is being deleted: kubectl apply --server-side -f manifests/00-crds: %s",
			r.objects, records, status.Message)
	case status.Code == http.StatusForbidden && strings.Contains(status.Message, fmt.Sprintf("resource %q in API group %q", records.Resource, records.Group)):
		return fmt.Sprintf("%s cannot be kept, since this server lacks a right on their records: kubectl apply -k manifests/farm: %s", r.objects, status.Message)
	}
	return ""
}

// isNamed reports whether a Status is about an object, as a missing namespace, and not about a path that is not served.
func isNamed(status metav1.Status) bool { return status.Details != nil && status.Details.Name != "" }
