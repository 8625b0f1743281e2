// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ownerUnknown is what the API server answers for some seconds after the owner's CustomResourceDefinition was installed.
func ownerUnknown() error {
	return apierrors.NewForbidden(pods, "web-immortalpod", errors.New("cannot set blockOwnerDeletion in this case because cannot find RESTMapping "+
		"for APIVersion immortalcontainers.flugel.it/v1alpha1 Kind ImmortalContainer: no matches for kind \"ImmortalContainer\" in version \"immortalcontainers.flugel.it/v1alpha1\""))
}

func TestRejection(t *testing.T) {
	quota := apierrors.NewForbidden(pods, "x", errors.New("exceeded quota"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{field.Required(field.NewPath("spec", "containers"), "")})
	policy := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "denied by policy", Code: 422}}
	// The same plugin, about a permission that is missing and will be.
	finalizers := apierrors.NewForbidden(pods, "web-immortalpod", errors.New("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"))
	for name, tc := range map[string]struct {
		err     error
		want    *Rejection
		invalid bool
	}{
		"nothing":                       {},
		"our own error":                 {err: errors.New("unknown step")},
		"it is not reached":             {err: &url.Error{Op: "Post", URL: "https://127.0.0.1:1/", Err: syscall.ECONNREFUSED}},
		"it fails":                      {err: apierrors.NewInternalError(errors.New("etcd"))},
		"it is overloaded":              {err: apierrors.NewTooManyRequests("busy", 0)},
		"a quota that was just counted": {err: apierrors.NewConflict(pods, "x", errors.New("quota"))},
		"an owner of a kind that was just installed": {err: ownerUnknown()},
		"an owner whose finalizers we may not set":   {err: finalizers, want: &Rejection{"Forbidden", finalizers.Error()}},
		"a quota that is used up":                    {err: quota, want: &Rejection{"Forbidden", quota.Error()}},
		"an object that is invalid":                  {err: invalid, want: &Rejection{"Invalid", invalid.Error()}, invalid: true},
		"a policy, which may be changed":             {err: policy, want: &Rejection{"Forbidden", "denied by policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.err
			if err != nil {
				err = fmt.Errorf("creating Pod x: %w", err)
			}
			got := RejectionOf(err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if got != nil && got.IsInvalid() != tc.invalid {
				t.Errorf("invalid: %v, want %v", got.IsInvalid(), tc.invalid)
			}
		})
	}
}
