// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

const dollyPath = "/apis/storage.farm.example.com/v1/namespaces/default/llamarecords/dolly"

func newDolly(resourceVersion string) *farmv1alpha.Llama {
	return &farmv1alpha.Llama{
		ObjectMeta: metav1.ObjectMeta{Name: "dolly", Namespace: "default", UID: "of-the-llama", ResourceVersion: resourceVersion},
		Spec:       farmv1alpha.LlamaSpec{Weight: 31.4, Height: 0.5},
	}
}

func heavier(object runtime.Object) (runtime.Object, error) {
	object.(*farmv1alpha.Llama).Spec.Weight++
	return object, nil
}

func TestALlamaIsCreatedByOneRequest(t *testing.T) {
	store, server := newServer(t, answering(201, dolly(5, 31.4)))
	llama, out := newDolly(""), &farmv1alpha.Llama{}
	llama.Labels, llama.Finalizers = map[string]string{"a": "1"}, []string{"farm.example.com/shear"}
	if err := store.Create(t.Context(), "/llamas/default/dolly", llama, out, 60); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newDolly("5"), out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if llama.Kind != "" || llama.APIVersion != "" {
		t.Errorf("what was given has a kind now: %+v", llama.TypeMeta)
	}
	want := []string{"POST " + strings.TrimSuffix(dollyPath, "/dolly") + ` {"kind":"LlamaRecord","apiVersion":"storage.farm.example.com/v1",` +
		`"metadata":{"name":"dolly","namespace":"default","labels":{"a":"1"}},"spec":{"object":{"kind":"Llama","apiVersion":"farm.example.com/v1alpha",` +
		`"metadata":{"name":"dolly","namespace":"default","uid":"of-the-llama","labels":{"a":"1"},"finalizers":["farm.example.com/shear"]},` +
		`"spec":{"weight":31.4,"height":0.5}}}}`}
	if diff := cmp.Diff(want, server.asked()); diff != "" {
		t.Errorf("-want +asked:\n%s", diff)
	}
}

// TestWhatCannotBeDecodedAgainIsNotStored: the time is one of the year 9999 for the client that sends it, and is stored in UTC.
func TestWhatCannotBeDecodedAgainIsNotStored(t *testing.T) {
	late := metav1.NewTime(time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*60*60)))
	manage := func(object runtime.Object) (runtime.Object, error) {
		object.(*farmv1alpha.Llama).ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: &late}}
		return object, nil
	}
	store, server := newServer(t, answering(200, dolly(5, 31.4)))
	managed, _ := manage(newDolly(""))
	for verb, err := range map[string]error{
		"create": store.Create(t.Context(), "/llamas/default/dolly", managed, nil, 0),
		"update": store.GuaranteedUpdate(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, false, nil, storage.SimpleUpdate(manage), newDolly("5")),
	} {
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "default/dolly cannot be decoded as it would be stored") {
			t.Errorf("%s: the error is %v", verb, err)
		}
	}
	if asked := slices.DeleteFunc(server.asked(), func(request string) bool { return strings.HasPrefix(request, "GET ") }); len(asked) != 0 {
		t.Errorf("asked %q", asked)
	}
}

func TestCachedObjectSavesARequest(t *testing.T) {
	store, server := newServer(t, answering(200, dolly(6, 32.4)))
	out := &farmv1alpha.Llama{}
	if err := store.GuaranteedUpdate(t.Context(), "/llamas/default/dolly", out, false, nil, storage.SimpleUpdate(heavier), newDolly("5")); err != nil {
		t.Fatal(err)
	}
	if asked := server.asked(); len(asked) != 1 || !strings.HasPrefix(asked[0], "PUT "+dollyPath+" ") ||
		!strings.Contains(asked[0], `"metadata":{"name":"dolly","namespace":"default","resourceVersion":"5"}`) || out.ResourceVersion != "6" {
		t.Errorf("asked %q, answered %+v", asked, out)
	}
	if err := store.Delete(t.Context(), "/llamas/default/dolly", out, nil, storage.ValidateAllObjectFunc, newDolly("6"), storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"DELETE " + dollyPath + ` {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"6"}}`}
	if diff := cmp.Diff(want, server.asked()); diff != "" {
		t.Errorf("-want +asked:\n%s", diff)
	}
	if diff := cmp.Diff(newDolly("6"), out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOtherConflictsAreNotRetriedForever(t *testing.T) {
	conflict := apierrors.NewConflict(recordsResource, "dolly", errors.New("a webhook says so"))
	store, server := newServer(t, answering(200, dolly(5, 1)), refusing(conflict), answering(200, dolly(5, 1)))
	err := store.GuaranteedUpdate(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, false, nil, storage.SimpleUpdate(heavier), nil)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `llamas.farm.example.com "dolly": a webhook says so`) || len(server.asked()) != 3 {
		t.Errorf("update: %v", err)
	}
	store, server = newServer(t, refusing(conflict), answering(200, dolly(5, 1)))
	err = store.Delete(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, nil, storage.ValidateAllObjectFunc, newDolly("5"), storage.DeleteOptions{})
	if !apierrors.IsConflict(err) || len(server.asked()) != 2 {
		t.Errorf("delete: %v", err)
	}
}

func TestWhatWasDeletedWhileItWasMadeIsMade(t *testing.T) {
	missing, exists := refusing(apierrors.NewNotFound(recordsResource, "dolly")), refusing(apierrors.NewAlreadyExists(recordsResource, "dolly"))
	store, server := newServer(t, missing, exists, missing, answering(201, dolly(7, 31.4)))
	update := storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return newDolly(""), nil })
	if err := store.GuaranteedUpdate(t.Context(), "/llamas/default/dolly", &farmv1alpha.Llama{}, true, nil, update, nil); err != nil {
		t.Error(err)
	}
	if asked := server.asked(); len(asked) != 4 {
		t.Errorf("asked %q", asked)
	}
}

func TestListsAndWatchesAskForWhatTheyWereAskedFor(t *testing.T) {
	list := answering(200, `{"metadata":{"resourceVersion":"7"},"items":null}`)
	predicate := func(label, field string) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: parse(t, label), Field: parseFields(t, field), GetAttrs: storage.DefaultNamespaceScopedAttr}
	}
	paged := predicate("a in (1,2),!b", "metadata.name!=x")
	paged.Limit, paged.Continue = 5, "token"
	bookmarks := predicate("", "")
	bookmarks.AllowWatchBookmarks = true
	for _, test := range []struct {
		key     string
		options storage.ListOptions
		want    string
	}{
		{"/llamas", storage.ListOptions{Recursive: true}, "llamarecords"},
		{"/llamas/default", storage.ListOptions{Recursive: true, ResourceVersion: "5", ResourceVersionMatch: "Exact"},
			"namespaces/default/llamarecords?resourceVersion=5&resourceVersionMatch=Exact"},
		{"/llamas/default/", storage.ListOptions{Recursive: true, Predicate: paged},
			"namespaces/default/llamarecords?continue=token&fieldSelector=metadata.name%21%3Dx&labelSelector=a+in+%281%2C2%29%2C%21b&limit=5"},
		{"/llamas/default/dolly", storage.ListOptions{Predicate: predicate("", "metadata.name=dolly")},
			"namespaces/default/llamarecords?fieldSelector=metadata.name%3Ddolly%2Cmetadata.name%3Ddolly"},
		{"/llamas", storage.ListOptions{Recursive: true, Predicate: bookmarks, SendInitialEvents: ptr.To(true), ResourceVersion: "5"},
			"llamarecords?allowWatchBookmarks=true&resourceVersion=5&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"},
		{"/llamas/default", storage.ListOptions{Recursive: true, ProgressNotify: true}, "namespaces/default/llamarecords?allowWatchBookmarks=true&watch=true"},
	} {
		store, server := newServer(t, list)
		if strings.Contains(test.want, "watch=true") {
			w, err := store.Watch(t.Context(), test.key, test.options)
			if err != nil {
				t.Fatal(err)
			}
			for range w.ResultChan() {
			}
		} else if err := store.GetList(t.Context(), test.key, test.options, &farmv1alpha.LlamaList{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"GET /apis/storage.farm.example.com/v1/" + test.want}, server.asked()); diff != "" {
			t.Errorf("-want +asked:\n%s", diff)
		}
	}
}
