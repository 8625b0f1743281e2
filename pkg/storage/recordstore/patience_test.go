// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// TestRetryAfterOfARefusal covers every method that makes a request: the storage asks once, and who has called it is answered so that
// client-go asks again, whatever the verb.
func TestRetryAfterOfARefusal(t *testing.T) {
	plain := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}
	mute := apierrors.NewTooManyRequests("slowly", 0)
	mute.ErrStatus.Details = nil
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   int
	}{
		"a cache that is filled":                  {refusing(apierrors.NewTooManyRequests("storage is (re)initializing", 7)), 7},
		"too many requests, without a Status":     {plain, 3},
		"an answer that does not say how long":    {refusing(mute), leastDelay},
		"an answer that says that it is no delay": {refusing(apierrors.NewTooManyRequests("slowly", 0)), leastDelay},
	} {
		for method, ask := range map[string]func(t *testing.T, store storage.Interface) error{
			"Get": func(t *testing.T, store storage.Interface) error {
				return store.Get(t.Context(), "/llamas/default/dolly", storage.GetOptions{}, &farmv1alpha.Llama{})
			},
			"GetList": func(t *testing.T, store storage.Interface) error {
				return store.GetList(t.Context(), "/llamas", storage.ListOptions{Recursive: true}, &farmv1alpha.LlamaList{})
			},
			"Watch": func(t *testing.T, store storage.Interface) error {
				_, err := store.Watch(t.Context(), "/llamas", storage.ListOptions{Recursive: true, ResourceVersion: "5"})
				return err
			},
			"Create": func(t *testing.T, store storage.Interface) error {
				return store.Create(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dolly"}}, nil, 0)
			},
			"GuaranteedUpdate": func(t *testing.T, store storage.Interface) error {
				return store.GuaranteedUpdate(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, false, nil, nil, nil)
			},
			"Delete": func(t *testing.T, store storage.Interface) error {
				return store.Delete(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			},
			"ReadinessCheck": func(_ *testing.T, store storage.Interface) error { return store.ReadinessCheck() },
		} {
			t.Run(method+" and "+name, func(t *testing.T) {
				store, server := newServer(t, tc.answer)
				err := ask(t, store)
				if seconds, _ := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != tc.want {
					t.Errorf("it is to be asked again after %d seconds, not %d: %v", seconds, tc.want, err)
				}
				if asked := server.asked(); len(asked) != 1 {
					t.Errorf("it is asked %q", asked)
				}
			})
		}
	}
}
