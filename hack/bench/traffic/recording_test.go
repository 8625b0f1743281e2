// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// switchServer answers with a Switch of Machine m, and requests to create one not before two are there.
func switchServer(t *testing.T) *rest.Config {
	t.Helper()
	var both sync.WaitGroup
	both.Add(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.Method == http.MethodPost {
			both.Done()
			both.Wait()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(switchOf("m", "some-uid", "17"))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func switchOf(machine string, uid types.UID, version string) *v1alpha1.Switch {
	owner := metav1.NewControllerRef(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: machine}}, schema.GroupVersion(v1alpha1.GroupVersion).WithKind("Machine"))
	return &v1alpha1.Switch{ObjectMeta: metav1.ObjectMeta{
		Name: "s", UID: uid, ResourceVersion: version, OwnerReferences: []metav1.OwnerReference{*owner},
	}}
}

func TestARecordedRequestCanBeSentAgainAndTellsWhatItWasAnsweredWith(t *testing.T) {
	proxy, err := StartProxy(switchServer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	switches := versioned.NewForConfigOrDie(&rest.Config{Host: proxy.URL}).UselessV1alpha1().Switches("ns")
	body := []byte(`{"spec":{"position":"down"}}`)
	if _, err := switches.Patch(t.Context(), "s", types.MergePatchType, body, metav1.PatchOptions{FieldManager: "us"}); err != nil {
		t.Fatal(err)
	}
	got, err := proxy.Take()
	if err != nil || len(got) != 1 {
		t.Fatalf("it recorded %v (%v), want the patch", got, err)
	}
	r := got[0]
	if r.Method != http.MethodPatch || r.URI != "/apis/useless.container.training/v1alpha1/namespaces/ns/switches/s?fieldManager=us" ||
		r.ContentType != string(types.MergePatchType) || r.Accept == "" || string(r.Body) != string(body) {
		t.Errorf("it was sent as %+v", r)
	}
	if want := (Identity{UID: "some-uid", ResourceVersion: "17"}); r.Answer != want {
		t.Errorf("it was answered with %+v, want %+v", r.Answer, want)
	}
	if r.Object != "m" {
		t.Errorf("it is about %q, want the Machine that the answer names", r.Object)
	}
}

func TestRequestsThatWereUnderWayAtTheSameTimeAreToldFromThoseThatCameAfter(t *testing.T) {
	proxy, err := StartProxy(switchServer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	switches := versioned.NewForConfigOrDie(&rest.Config{Host: proxy.URL}).UselessV1alpha1().Switches("ns")
	var creators sync.WaitGroup
	for range 2 {
		creators.Go(func() {
			if _, err := switches.Create(context.Background(), switchOf("m", "", ""), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	creators.Wait()
	if _, err := switches.UpdateStatus(t.Context(), switchOf("m", "", ""), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := proxy.Take()
	if err != nil || len(got) != 3 {
		t.Fatalf("it recorded %d requests (%v), want three", len(got), err)
	}
	if got[1].Began > got[0].Answered || got[0].Began > got[1].Answered {
		t.Errorf("the first two seem to have followed each other: %+v, %+v", got[0], got[1])
	}
	if got[2].Began < got[0].Answered || got[2].Began < got[1].Answered {
		t.Errorf("the third seems to have begun before the others were answered: %+v", got[2])
	}
}
