// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/metadata"

	"millwright.dev/pkg/objectcache/objectwriter"
	"millwright.dev/pkg/testing/fakeapi"
)

// removerFor returns a FinalizerRemover for an API server.
func removerFor(t *testing.T, api *fakeAPI) FinalizerRemover {
	t.Helper()
	config := api.config()
	writer, err := objectwriter.New(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return FinalizerRemover{Kind: Composite, Metadata: client, Writer: writer}
}

// thing returns a parent with the name.
func thing(name, metadata string) string {
	return strings.Replace(string(parentWith(metadata)), `"name":"thing"`, `"name":"`+name+`"`, 1)
}

const ours = `"finalizers":["metacontroller.io/compositecontroller-cc"]`

func TestRemoveFinalizer(t *testing.T) {
	api := startFakeAPI(t, thing("thing", ours), thing("held", held), thing("theirs", `"finalizers":["example.com/theirs"]`), thing("zero", ours))
	if err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "cc"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"thing": nil, "held": {"example.com/theirs"}, "theirs": {"example.com/theirs"}, "zero": nil} {
		if got := api.stored("things/" + name).GetFinalizers(); !slices.Equal(got, want) {
			t.Errorf("the finalizers of %s are %v, want %v", name, got, want)
		}
	}
	if did := api.did(); slices.ContainsFunc(did, func(request string) bool { return strings.Contains(request, "theirs") }) {
		t.Errorf("a parent without our finalizer was read: %v", did)
	}
}

// The engine may list, watch and patch targets, and no more.
func TestRemoveFinalizerFromTargets(t *testing.T) {
	const ours = `"finalizers":["example.com/theirs","metacontroller.io/decoratorcontroller-dc"]`
	api := startFakeAPI(t, thing("thing", ours), thing("theirs", `"finalizers":["example.com/theirs"]`))
	remover := removerFor(t, api)
	remover.Kind = Decorator
	if err := remover.Remove(t.Context(), things.GroupVersionResource, "dc"); err != nil {
		t.Fatal(err)
	}
	if did := api.did(); !slices.Equal(did, []string{"PATCH things/thing"}) {
		t.Errorf("the requests are %v", did)
	}
	if got := api.stored("things/thing").GetFinalizers(); !slices.Equal(got, []string{"example.com/theirs"}) {
		t.Errorf("the finalizers are %v", got)
	}
}

func TestRemoveKeepsForeignFinalizers(t *testing.T) {
	api := startFakeAPI(t, thing("thing", ours))
	if err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "another"); err != nil {
		t.Fatal(err)
	}
	if did := api.did(); len(did) > 0 {
		t.Errorf("the requests are %v", did)
	}
}

func TestRemoveToleratesDeletedParents(t *testing.T) {
	api := startFakeAPI(t, thing("thing", held))
	api.FailIf(func(r *fakeapi.Request) error {
		if requestText(r) == "GET things/thing" {
			api.drop("things/thing")
		}
		return nil
	})
	if err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "cc"); err != nil {
		t.Error(err)
	}
}

// TestRemoveFromUnservedParents: the API server, or one of several, does not serve parents any more when they have been listed.
func TestRemoveFromUnservedParents(t *testing.T) {
	for _, request := range []string{"GET things/thing", "PUT things/thing"} {
		api := startFakeAPI(t, thing("thing", held))
		api.fails(request, http.StatusNotFound, "the server could not find the requested resource")
		if err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "cc"); !errors.Is(err, errUnserved) || apierrors.IsNotFound(err) {
			t.Errorf("%s: the error is %v", request, err)
		}
	}
}

func TestRemoveReturnsErrorsOfParents(t *testing.T) {
	for _, request := range []string{"GET things/thing", "PUT things/thing"} {
		api := startFakeAPI(t, thing("thing", held))
		api.fails(request, http.StatusForbidden, "no")
		if err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "cc"); err == nil || !strings.Contains(err.Error(), "ns/thing") {
			t.Errorf("%s: the error is %v", request, err)
		}
	}
}

// TestRemoveGoesOnAfterErrors: admission refuses the write of one parent. A missing right ends it: it would be missing for each.
func TestRemoveGoesOnAfterErrors(t *testing.T) {
	for message, want := range map[string]int{"denied by a policy": 3, `User "engine" cannot update resource "things"`: 1} {
		api := startFakeAPI(t, thing("a", ours), thing("b", ours), thing("c", ours))
		api.fails("PUT things/a", http.StatusForbidden, message)
		err := removerFor(t, api).Remove(t.Context(), things.GroupVersionResource, "cc")
		if err == nil || !strings.Contains(err.Error(), "ns/a") {
			t.Errorf("the error is %v", err)
		}
		writes := slices.DeleteFunc(api.did(), func(request string) bool { return !strings.HasPrefix(request, "PUT") })
		if len(writes) != want {
			t.Errorf("%s: the writes are %v, want %d", message, writes, want)
		}
	}
}
