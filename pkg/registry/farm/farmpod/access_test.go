// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func schemaResource(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }

type errText string

func (e errText) Error() string { return string(e) }

// withUID adds the UID of a Pod.
func withUID(err *apierrors.StatusError) *apierrors.StatusError {
	err.ErrStatus.Details.UID = testPod("dolly").UID
	return err
}

// ways are all the ways to FarmPods: of one, of all of a namespace, of all.
var ways = map[string]func(context.Context, *REST) error{
	"get pods/dolly": func(ctx context.Context, r *REST) error {
		_, err := r.Get(ctx, "farm-dolly", &metav1.GetOptions{})
		return err
	},
	"list pods/": func(ctx context.Context, r *REST) error {
		_, err := r.List(ctx, &internalversion.ListOptions{})
		return err
	},
	"list pods/dolly": func(ctx context.Context, r *REST) error {
		_, err := r.List(ctx, &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "farm-dolly")})
		return err
	},
	"watch pods/": func(ctx context.Context, r *REST) error {
		w, err := r.Watch(ctx, &internalversion.ListOptions{Watch: true})
		if err == nil {
			w.Stop()
		}
		return err
	},
}

// judge answers all questions alike, and notes them.
type judge struct {
	decision authorizer.Decision
	err      error
	asked    []authorizer.Attributes
}

func (j *judge) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	j.asked = append(j.asked, attributes)
	return j.decision, "because", j.err
}

func TestAccessRequiresPodRights(t *testing.T) {
	for way, try := range ways {
		t.Run(way, func(t *testing.T) {
			api := newUpstream(t, answering(http.StatusOK, testPod("dolly")))
			access := &judge{decision: authorizer.DecisionNoOpinion}
			err := try(testContext(t, "barn"), api.rest(t, access))
			verb, _, _ := strings.Cut(way, " ")
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice" cannot `+verb+` resource "pods" in API group "" in the namespace "barn", and this server serves farmpods only to users who can: because`) {
				t.Errorf("error is %v", err)
			}
			if paths := api.paths(); len(paths) != 0 {
				t.Errorf("the API server was asked for %v", paths)
			}
			if len(access.asked) != 1 {
				t.Fatalf("asked %d times", len(access.asked))
			}
			asked := access.asked[0]
			got := []string{asked.GetUser().GetName(), asked.GetVerb() + " " + asked.GetResource() + "/" + asked.GetName(), asked.GetNamespace(),
				asked.GetAPIGroup(), asked.GetAPIVersion()}
			if diff := cmp.Diff([]string{"alice", way, "barn", "", "v1"}, got); diff != "" || !asked.IsResourceRequest() || !asked.IsReadOnly() {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoMayReadPodsSeesFarmPods(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, testPod("dolly")))
	// An error together with a permission is no failure: one of several authorizers has failed.
	access := &judge{decision: authorizer.DecisionAllow, err: errors.New("another authorizer is down")}
	if err := ways["get pods/dolly"](testContext(t, "barn"), api.rest(t, access)); err != nil {
		t.Error(err)
	}
}

func TestFailedAccessReviewHidesPods(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, &corev1.PodList{}))
	access := &judge{decision: authorizer.DecisionNoOpinion, err: errors.New("the API server is down")}
	if err := ways["list pods/"](testContext(t, ""), api.rest(t, access)); !apierrors.IsInternalError(err) {
		t.Errorf("error is %v", err)
	}
	if paths := api.paths(); len(paths) != 0 {
		t.Errorf("the API server was asked for %v", paths)
	}
}

func TestRefusalForAllNamespaces(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, &corev1.PodList{}))
	err := ways["list pods/"](testContext(t, ""), api.rest(t, &judge{decision: authorizer.DecisionDeny}))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "at the cluster scope") {
		t.Errorf("error is %v", err)
	}
}
