// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
	"millwright.dev/pkg/testing/fakeapi"
)

// fakeAPI is the API server with parents and children of any kind, as JSON. A path is the plural and the name: "things/thing".
type fakeAPI struct {
	*fakeapi.Server
	t       *testing.T
	objects map[string]fakeapi.Objects[unstructured.Unstructured] // by plural
	// taken is the path of an object that is there when it is to be created, and not when it is read.
	taken string
	// meanwhile is called before each request, nil for nothing.
	meanwhile func(request string)
	// mutate changes objects that are created, as admission does.
	mutate func(tree map[string]any)
}

func startFakeAPI(t *testing.T, objects ...string) *fakeAPI {
	f := &fakeAPI{t: t, objects: map[string]fakeapi.Objects[unstructured.Unstructured]{}}
	resources := []fakeapi.Resource{
		{GroupVersionResource: things.GroupVersionResource, Kind: "Thing", Status: true},
		{GroupVersionResource: things.GroupVersion().WithResource("plains"), Kind: "Plain"},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap", Admit: f.admit},
		fakeapi.Deployments,
	}
	f.Server = fakeapi.New(t, resources...)
	for _, resource := range resources {
		f.objects[resource.Resource] = fakeapi.Of[unstructured.Unstructured](f.Server, resource)
	}
	f.Log(requestText)
	f.fails("none", 0, "")
	for _, object := range objects {
		f.put(object)
	}
	return f
}

func (f *fakeAPI) admit(before, object *unstructured.Unstructured) error {
	if before == nil && f.mutate != nil {
		f.mutate(object.Object)
	}
	return nil
}

var methods = map[string]string{"get": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete}

// requestText is the request in a line: "PUT things/thing/status".
func requestText(r *fakeapi.Request) string {
	text := strings.TrimSuffix(methods[r.Verb]+" "+r.Resource.Resource+"/"+r.Name+"/"+r.Subresource, "/")
	if r.Query.Has("dryRun") {
		text += " (dry run)"
	}
	return text
}

// config returns the config for the server, which lists in pages of one object.
func (f *fakeAPI) config() *rest.Config {
	return f.ConfigVia(func(r *fakeapi.Request) (*http.Response, error) {
		if r.Verb == "list" {
			r.Query.Set("limit", "1")
		} else if f.meanwhile != nil {
			f.meanwhile(requestText(r))
		}
		return f.Do(r)
	})
}

// terminating is an error for fails: the namespace is being deleted.
const terminating = 1403

var reasonsOf = map[int]metav1.StatusReason{
	http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// fails makes requests fail whose text contains this one.
func (f *fakeAPI) fails(part string, code int, message string) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reasonsOf[code], Message: message}
	if code == terminating {
		status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}
	}
	f.FailIf(func(r *fakeapi.Request) error {
		switch {
		case r.Verb == "list" || r.Verb == "watch":
			return nil
		case r.Verb == "create" && f.taken == r.Resource.Resource+"/"+r.Name:
			return apierrors.NewAlreadyExists(r.Resource.GroupResource(), r.Name)
		case code > 0 && strings.Contains(requestText(r), part):
			return &apierrors.StatusError{ErrStatus: status}
		}
		return nil
	})
}

func (f *fakeAPI) objectsOf(path string) (objects fakeapi.Objects[unstructured.Unstructured], name string) {
	resource, name, _ := strings.Cut(path, "/")
	return f.objects[resource], name
}

// stored returns an object of the server; nil if it has none.
func (f *fakeAPI) stored(path string) object {
	objects, name := f.objectsOf(path)
	stored := objects.Get("ns", name)
	if stored == nil {
		return nil
	}
	return textOf(f.t, stored.Object)
}

// put creates an object, or replaces the one with its name.
func (f *fakeAPI) put(object string) {
	tree, err := treeOf(text(object))
	if err != nil {
		f.t.Fatal(err)
	}
	made := &unstructured.Unstructured{Object: tree}
	objects := f.objects[strings.ToLower(made.GetKind())+"s"]
	if objects.Get("ns", made.GetName()) != nil {
		objects.Remove("ns", made.GetName())
	}
	objects.Create(made)
}

// exists makes a creation fail because the object exists, and then deletes the object.
func (f *fakeAPI) exists(path string) { f.taken = path }

// drop deletes an object.
func (f *fakeAPI) drop(path string) {
	objects, name := f.objectsOf(path)
	objects.Remove("ns", name)
}

// did returns the requests since the last call.
func (f *fakeAPI) did() []string {
	requests, _ := f.TakeLog()
	return requests
}

// syncTest is a sync of the parent thing in the API server.
type syncTest struct {
	*parentSync
	api    *fakeAPI
	events *record.FakeRecorder
	// after is the delay until the next sync, as the last one has asked for.
	after time.Duration
}

func newSyncTest(t *testing.T, api *fakeAPI, edits ...edit) *syncTest {
	t.Helper()
	return newSyncTestOf(t, api, specWith(t, edits...))
}

func newSyncTestOf(t *testing.T, api *fakeAPI, spec *Spec) *syncTest {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	config := api.config()
	objects, err := objectcache.New(ctx, config, objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		objects.Wait()
	})
	writer, err := objectwriter.New(config)
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(100)
	c := &Controller{
		Config: Config{Objects: objects, Recorder: events, Writer: writer, FieldManager: "metacontroller"}, name: t.Name(), spec: spec,
		orphans: newOrphanIndex(), blocked: newBlockedParents(),
	}
	acquire := func(of Resource) *objectcache.Handle {
		handle, err := objects.Acquire(objectcache.Request{Resource: of.GroupVersionResource})
		if err != nil {
			t.Fatal(err)
		}
		if !cache.WaitFor(ctx, "", handle.Synced()) {
			t.Fatal("the cache is not filled")
		}
		return handle
	}
	of := &parents{parentType: c.spec.parents[0], handle: acquire(c.spec.parents[0].Resource)}
	c.parents = []*parents{of}
	for _, child := range c.spec.children {
		c.children = append(c.children, acquire(child.Resource))
	}
	api.Freeze() // every cache is stale from now on
	s := &parentSync{Controller: c, of: of, key: c.keyOf(of, "ns", "thing"), parent: of.handle.Get("ns", "thing")}
	if s.parent == nil {
		t.Fatal("there is no parent")
	}
	if err := s.readSelector(); err != nil {
		t.Fatal(err)
	}
	return &syncTest{parentSync: s, api: api, events: events}
}

// answered applies an answer of the hook to the children that are gathered.
func (s *syncTest) answered(called phase, body string) error {
	s.api.t.Helper()
	children, err := s.gather(s.api.t.Context())
	if err != nil {
		return err
	}
	o := observed{
		parent: s.parent, of: s.of.parentType, selector: s.state.selector, children: children.byKey, called: called,
		answer: answerOf(s.api.t, s.spec, s.parent, body), history: s.state.history, now: time.Now(),
	}
	p, err := s.spec.decide(o, s.spec.merger())
	if err != nil {
		return err
	}
	s.state.history = p.history
	s.after, err = s.apply(s.api.t.Context(), &p)
	return err
}
