// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestGetRequest(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, testPod("dolly")))
	got, err := api.rest(t, nil).Get(testContext(t, "barn"), "farm-dolly", &metav1.GetOptions{ResourceVersion: "5"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(convert(testPod("dolly")), got); diff != "" {
		t.Errorf("FarmPod (-want +got):\n%s", diff)
	}
	if query := api.query(t); query.Get("resourceVersion") != "5" {
		t.Errorf("asked with %v", query)
	}
	if diff := cmp.Diff([]string{"/api/v1/namespaces/barn/pods/dolly"}, api.paths()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

func TestPodsAreAskedForAsProtobuf(t *testing.T) {
	var accepted string
	api := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		accepted = r.Header.Get("Accept")
		answering(http.StatusOK, &corev1.PodList{})(w, r)
	})
	if _, err := api.rest(t, nil).List(testContext(t, ""), nil); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(accepted, runtime.ContentTypeProtobuf) {
		t.Errorf("accepted is %q", accepted)
	}
}

func TestNameWithoutPrefixIsNotFound(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, testPod("dolly")))
	for _, name := range []string{"dolly", "farm-", "FARM-dolly"} {
		_, err := api.rest(t, nil).Get(testContext(t, "barn"), name, &metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `farmpods.farm.example.com "`+name+`" not found`) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if paths := api.paths(); len(paths) != 0 {
		t.Errorf("the API server was asked for %v", paths)
	}
}

func TestListAsksWithTheSameOptionsAndKeepsThePage(t *testing.T) {
	page := metav1.ListMeta{ResourceVersion: "77", Continue: "next", RemainingItemCount: ptr.To(int64(3))}
	api := newUpstream(t, answering(http.StatusOK, &corev1.PodList{ListMeta: page, Items: []corev1.Pod{*testPod("dolly")}}))
	label, err := labels.Parse("app in (a,b)")
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.rest(t, nil).List(testContext(t, "barn"), &internalversion.ListOptions{
		LabelSelector: label, FieldSelector: fields.ParseSelectorOrDie("spec.nodeName=node-1,metadata.name!=farm-x"), ResourceVersion: "70",
		ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 1, Continue: "here", TimeoutSeconds: ptr.To(int64(9)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"labelSelector": {"app in (a,b)"}, "fieldSelector": {"metadata.name!=x,spec.nodeName=node-1"}, "resourceVersion": {"70"},
		"resourceVersionMatch": {"Exact"}, "limit": {"1"}, "continue": {"here"}, "timeoutSeconds": {"9"}, "timeout": {"9s"},
	}
	if diff := cmp.Diff(want, map[string][]string(api.query(t))); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
	list := got.(*farm.FarmPodList)
	if diff := cmp.Diff(page, list.ListMeta); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "farm-dolly" {
		t.Errorf("items are %v", list.Items)
	}
}

func TestOfAllNamespacesAllPodsAreAskedFor(t *testing.T) {
	api := newUpstream(t, answering(http.StatusOK, &corev1.PodList{}))
	if _, err := api.rest(t, nil).List(testContext(t, ""), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/api/v1/pods"}, api.paths()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// TestTheRequestForPodsEndsWithThatForFarmPods also proves, by goleak, that nothing is left of it.
func TestTheRequestForPodsEndsWithThatForFarmPods(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	api := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(testContext(t, "barn"))
	go func() {
		<-asked
		cancel()
	}()
	if _, err := api.rest(t, nil).List(ctx, nil); !apierrors.IsTimeout(err) {
		t.Errorf("error is %v", err)
	}
	<-gone
}

func TestErrorsNameFarmPods(t *testing.T) {
	pods := schemaResource("pods")
	for _, test := range []struct {
		name   string
		answer *apierrors.StatusError
		want   *apierrors.StatusError
	}{
		{"a Pod that there is not", apierrors.NewNotFound(pods, "dolly"), apierrors.NewNotFound(resource, "farm-dolly")},
		{"a Pod that was made again", withUID(apierrors.NewConflict(pods, "dolly", errText("another UID"))), apierrors.NewConflict(resource, "farm-dolly", errText("another UID"))},
		{"a resourceVersion that is too old", apierrors.NewResourceExpired("too old resource version: 1 (7)"), apierrors.NewResourceExpired("too old resource version: 1 (7)")},
		{"a resourceVersion of the future", apierrors.NewTimeoutError("Too large resource version: 9, current: 7", 1), apierrors.NewTimeoutError("Too large resource version: 9, current: 7", 1)},
		{"a bad request", apierrors.NewBadRequest("invalid continue token"), apierrors.NewBadRequest("invalid continue token")},
		{"a conflict about a Pod", apierrors.NewConflict(pods, "dolly", errText("of some kind")), apierrors.NewConflict(resource, "farm-dolly", errText("of some kind"))},
		{"rights that this server lacks", apierrors.NewForbidden(pods, "dolly", errText(`User "farm" cannot get resource "pods"`)),
			apierrors.NewServiceUnavailable(`get of farmpods: this server lacks a right, grant it as manifests/farm does: pods "dolly" is forbidden: User "farm" cannot get resource "pods"`)},
		{"credentials of this server that have expired", apierrors.NewUnauthorized("Unauthorized"), apierrors.NewInternalError(errText("get of farmpods: the API server does not accept the credentials of this server: Unauthorized"))},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := newUpstream(t, refusing(test.answer.ErrStatus))
			_, err := api.rest(t, nil).Get(testContext(t, "barn"), "farm-dolly", &metav1.GetOptions{})
			got, ok := err.(*apierrors.StatusError)
			if !ok {
				t.Fatalf("error is %T %v", err, err)
			}
			got.ErrStatus.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(test.want.ErrStatus, got.ErrStatus); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallerIsAskedToRetryLater(t *testing.T) {
	for way, try := range ways {
		t.Run(way, func(t *testing.T) {
			api := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "1")
				refusing(apierrors.NewTooManyRequests("busy", 1).ErrStatus)(w, r)
			})
			err := try(testContext(t, "barn"), api.rest(t, nil))
			if delay, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || delay != 1 {
				t.Errorf("error is %v", err)
			}
			if asked := len(api.paths()); asked != 1 {
				t.Errorf("the API server was asked %d times", asked)
			}
		})
	}
}

func TestUnreachableAPIServer(t *testing.T) {
	api := newUpstream(t, nil)
	r := api.rest(t, nil)
	api.Close()
	_, err := r.List(testContext(t, "barn"), nil)
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "asking the API server for pods") {
		t.Errorf("error is %v", err)
	}
}
