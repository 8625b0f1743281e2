// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

func TestErrorsNameLlamas(t *testing.T) {
	quota := apierrors.NewForbidden(recordsResource, "dolly", errors.New("exceeded quota: q, requested: count/llamarecords.storage.farm.example.com=1"))
	terminating := apierrors.NewForbidden(recordsResource, "dolly", errors.New("unable to create new content in namespace default because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "storage.farm.example.com", Kind: "LlamaRecord"}, "dolly", nil)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		code   int32
		texts  []string
	}{
		"a quota, which keeps its name": {refusing(quota), 403, []string{`llamas.farm.example.com "dolly" is forbidden: exceeded quota: q, requested: count/llamarecords.storage.farm.example.com=1`}},
		"a namespace that goes":         {refusing(terminating), 403, []string{`llamas.farm.example.com "dolly" is forbidden`, "being terminated"}},
		"a namespace that is missing":   {refusing(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default")), 404, []string{`namespaces "default" not found`}},
		"too many requests":             {refusing(apierrors.NewTooManyRequests("slowly", 7)), 429, []string{"slowly"}},
		"a policy":                      {refusing(invalid), 422, []string{`Llama.farm.example.com "dolly" is invalid`}},
		"too large":                     {refusing(apierrors.NewRequestEntityTooLargeError("limit is 3145728")), 413, []string{"limit is 3145728"}},
		"no CRD": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "404 page not found", 404) }, 503,
			[]string{"CustomResourceDefinition llamarecords.storage.farm.example.com is not installed", "kubectl apply --server-side -f manifests/00-crds"}},
		"a CRD that goes": {refusing(apierrors.NewMethodNotSupported(recordsResource, "create")), 503, []string{"is not installed or is being deleted"}},
		"no right": {refusing(apierrors.NewForbidden(recordsResource, "", errors.New(`User "system:serviceaccount:default:farm-operator" cannot create resource "llamarecords" in API group "storage.farm.example.com" in the namespace "default"`))), 503,
			[]string{"this server lacks a right", `cannot create resource "llamarecords"`, "kubectl apply -k manifests/farm"}},
		"a token that is over": {refusing(apierrors.NewUnauthorized("Unauthorized")), 503, []string{"does not know this server any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			store, server := newServer(t, test.answer)
			err := store.Create(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Name: "dolly", Namespace: "default"}}, nil, 0)
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || status.Status().Code != test.code {
				t.Fatalf("got %#v", err)
			}
			for _, text := range test.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in: %v", text, err)
				}
			}
			if details := status.Status().Details; details != nil && strings.Contains(details.Group+details.Kind, "storage") {
				t.Errorf("the details speak of records: %+v", details)
			}
			if asked := server.asked(); len(asked) != 1 {
				t.Errorf("asked %d times", len(asked))
			}
		})
	}
}

func TestUnansweredRequestIsUnavailable(t *testing.T) {
	store, _ := newServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, err := range map[string]error{
		"get":   store.Get(t.Context(), "/llamas/default/dolly", storage.GetOptions{}, &farmv1alpha.Llama{}),
		"list":  store.GetList(t.Context(), "/llamas", storage.ListOptions{Recursive: true}, &farmv1alpha.LlamaList{}),
		"ready": store.ReadinessCheck(),
	} {
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "llamas.farm.example.com") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := store.Watch(t.Context(), "/llamas", storage.ListOptions{Recursive: true}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("watch: %v", err)
	}
}

func TestRequestTimeout(t *testing.T) {
	store, _ := newServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Get(ctx, "/llamas/default/dolly", storage.GetOptions{}, &farmv1alpha.Llama{}); !apierrors.IsTimeout(err) || storage.IsTooLargeResourceVersion(err) {
		t.Errorf("got %v", err)
	}
}

func TestAListThatBreaksOffIsNoShorterList(t *testing.T) {
	for _, body := range []string{"", "{", `{"items":[` + dolly(5, 1), `{"items":[` + dolly(5, 1) + `,{"metadata":`, `{"items":[` + dolly(5, 1) + `]`, "[]"} {
		store, _ := newServer(t, answering(200, body))
		list := &farmv1alpha.LlamaList{}
		err := store.GetList(t.Context(), "/llamas", storage.ListOptions{Recursive: true}, list)
		if !apierrors.IsServiceUnavailable(err) || len(list.Items) != 0 {
			t.Errorf("%q: %d items, %v", body, len(list.Items), err)
		}
	}
}

func TestRecordsThatHoldNoLlamaAreNamed(t *testing.T) {
	heavy, other, renamed := recordOf("heavy", 3, llamaOf("heavy", `"much"`)), recordOf("other", 4, `{"kind":"Alpaca","apiVersion":"farm.example.com/v1alpha"}`), recordOf("renamed", 5, llamaOf("dolly", 1))
	empty := recordOf("empty", 6, "{}")
	store, _ := newServer(t, answering(200, `{"metadata":{"resourceVersion":"7"},"items":[`+strings.Join([]string{dolly(2, 1), heavy, other, renamed, empty}, ",")+`]}`))
	err := store.GetList(t.Context(), "/llamas", storage.ListOptions{Recursive: true}, &farmv1alpha.LlamaList{})
	if !storage.IsCorruptObject(err) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"heavy", "other", "renamed", "empty"} {
		if want := "kubectl delete llamarecords.storage.farm.example.com -n default " + name; !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "-n default dolly") {
		t.Errorf("dolly is well: %v", err)
	}
	store, _ = newServer(t, answering(200, heavy))
	if err := store.Get(t.Context(), "/llamas/default/heavy", storage.GetOptions{}, &farmv1alpha.Llama{}); !storage.IsCorruptObject(err) ||
		!strings.Contains(err.Error(), "LlamaRecord default/heavy") {
		t.Errorf("get: %v", err)
	}
}
