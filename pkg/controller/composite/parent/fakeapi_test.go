// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// fakeAPI is an API server for objects of any kind: it knows UIDs, resourceVersions and their preconditions. Watches show what was there when
// they began, and nothing after that, so that every cache is stale.
type fakeAPI struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	version int
	objects map[string]map[string]any // by path
	// requests that write or get one object, in their order: "PUT things/thing/status".
	requests []string
	// refuse a request: 0 lets it through.
	refuse func(request string) (code int, message string)
	// gone is an object that is there when it is to be created, and not when it is looked at.
	gone string
	// mutate is what becomes of objects that are created.
	mutate func(tree map[string]any)
}

func startFakeAPI(t *testing.T, objects ...string) *fakeAPI {
	f := &fakeAPI{t: t, version: 100, objects: map[string]map[string]any{}, refuse: func(string) (int, string) { return 0, "" }, mutate: func(map[string]any) {}}
	for _, object := range objects {
		tree, err := treeOf(text(object))
		if err != nil {
			t.Fatal(err)
		}
		f.objects[pathOf(tree)] = tree
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// pathOf an object: its plural and name.
func pathOf(tree map[string]any) string {
	metadata := tree["metadata"].(map[string]any)
	return fmt.Sprintf("%ss/%s", strings.ToLower(tree["kind"].(string)), metadata["name"])
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/namespaces/ns/")
	if path == "" {
		path = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	}
	resource, name, _ := strings.Cut(path, "/")
	name, subresource, _ := strings.Cut(name, "/")
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet && name == "" {
		f.watch(w, r, resource)
		return
	}
	body, _ := io.ReadAll(r.Body)
	code, answer := f.serve(r, resource, name, subresource, body)
	if text, ok := answer.(string); ok && code == terminating {
		code = http.StatusForbidden
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: text, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}
	} else if ok {
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reasonsOf[code], Message: text}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// terminating is for refuse: forbidden because the namespace is being deleted.
const terminating = 1403

var reasonsOf = map[int]metav1.StatusReason{
	http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

func (f *fakeAPI) serve(r *http.Request, resource, name, subresource string, body []byte) (int, any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	request := r.Method + " " + strings.TrimSuffix(resource+"/"+name+"/"+subresource, "/")
	var tree map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		_ = json.Unmarshal(body, &tree)
	}
	dry := r.URL.Query().Has("dryRun")
	if r.Method == http.MethodPost {
		metadata := tree["metadata"].(map[string]any)
		if dry {
			metadata["name"] = fmt.Sprint(metadata["generateName"], "abc")
		}
		request = fmt.Sprintf("POST %s/%s", resource, metadata["name"])
	}
	if dry {
		request += " (dry run)"
	}
	f.requests = append(f.requests, strings.TrimSuffix(request, "/"))
	if code, message := f.refuse(strings.TrimSuffix(request, "/")); code > 0 {
		return code, message
	}
	key := resource + "/" + name
	stored := f.objects[key]
	switch {
	case r.Method == http.MethodPost:
		key = pathOf(tree)
		if f.objects[key] != nil || f.gone == key {
			return http.StatusConflict, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Message: "it exists"}
		}
		f.mutate(tree)
		f.version++
		tree["metadata"].(map[string]any)["uid"], tree["metadata"].(map[string]any)["resourceVersion"] = "uid-"+strconv.Itoa(f.version), strconv.Itoa(f.version)
		if !dry {
			f.objects[key] = tree
		}
		return http.StatusCreated, tree
	case stored == nil:
		return http.StatusNotFound, "there is no " + key
	case r.Method == http.MethodGet:
		return http.StatusOK, stored
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		_ = json.Unmarshal(body, &options)
		if options.Preconditions == nil || string(*options.Preconditions.UID) != stored["metadata"].(map[string]any)["uid"] {
			return http.StatusConflict, "another UID"
		}
		delete(f.objects, key)
		return http.StatusOK, stored
	}
	if tree["metadata"].(map[string]any)["resourceVersion"] != stored["metadata"].(map[string]any)["resourceVersion"] {
		return http.StatusConflict, "another resourceVersion"
	}
	f.version++
	if subresource == "status" {
		status := tree["status"]
		tree, _ = treeOf(textOf(f.t, stored))
		tree["status"] = status
	}
	tree["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[key] = tree
	return http.StatusOK, tree
}

// watch shows what is there, and then nothing.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	var items []map[string]any
	for path, tree := range f.objects {
		if strings.HasPrefix(path, resource+"/") {
			items = append(items, tree)
		}
	}
	version := strconv.Itoa(f.version)
	f.mu.Unlock()
	if !r.URL.Query().Has("watch") { // a list, in pages of one
		slices.SortFunc(items, func(a, b map[string]any) int { return strings.Compare(pathOf(a), pathOf(b)) })
		at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		metadata := map[string]any{"resourceVersion": version}
		if at+1 < len(items) {
			metadata["continue"] = strconv.Itoa(at + 1)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items[min(at, len(items)):min(at+1, len(items))]})
		return
	}
	encoder := json.NewEncoder(w)
	for _, item := range items {
		_ = encoder.Encode(map[string]any{"type": "ADDED", "object": item})
	}
	_ = encoder.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{"apiVersion": "v1", "kind": "Thing",
		"metadata": map[string]any{"resourceVersion": version, "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"}}}})
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// stored is an object as the server has it; nil if it has none.
func (f *fakeAPI) stored(path string) object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.objects[path] == nil {
		return nil
	}
	return textOf(f.t, f.objects[path])
}

// put an object in the place of the one of its name, since the caches were filled.
func (f *fakeAPI) put(object string) {
	tree, err := treeOf(text(object))
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[pathOf(tree)] = tree
}

// exists makes an object be in the way of its creation, and gone after that.
func (f *fakeAPI) exists(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = path
}

// drop an object.
func (f *fakeAPI) drop(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, path)
}

// did are the requests since the last call.
func (f *fakeAPI) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	did := slices.Clone(f.requests)
	f.requests = nil
	return did
}

// fails refuses requests of which the text is a part.
func (f *fakeAPI) fails(part string, code int, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = func(request string) (int, string) {
		if strings.Contains(request, part) {
			return code, message
		}
		return 0, ""
	}
}

// syncing is a sync of the parent thing, as it is in the API server, by the rules.
type syncing struct {
	*parentSync
	api    *fakeAPI
	events *record.FakeRecorder
}

func newSyncing(t *testing.T, api *fakeAPI, edits ...edit) *syncing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	config := &rest.Config{Host: api.URL}
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
	c := &Controller{Config: Config{Recorder: events, Writer: writer}, name: t.Name(), spec: specWith(t, edits...), orphans: newOrphanIndex(), blocked: newBlockedParents(),
		states: map[cache.ObjectName]*parentState{}}
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
	c.parents = acquire(c.spec.parent)
	for _, child := range c.spec.children {
		c.children = append(c.children, acquire(child.Resource))
	}
	s := &parentSync{Controller: c, key: c.parentKey("ns", "thing"), parent: c.parents.Get("ns", "thing")}
	if s.parent == nil {
		t.Fatal("there is no parent")
	}
	if err := s.readSelector(); err != nil {
		t.Fatal(err)
	}
	return &syncing{s, api, events}
}

// answered applies an answer of the hook to the children that are gathered.
func (s *syncing) answered(called phase, body string) error {
	s.api.t.Helper()
	children, err := s.gather(s.api.t.Context())
	if err != nil {
		return err
	}
	p, err := s.spec.decide(observed{parent: s.parent, selector: s.state.selector, children: children.byKey, called: called, answer: answerOf(s.api.t, s.spec, s.parent, body), history: s.state.history, now: time.Now()}, merge.Update)
	if err != nil {
		return err
	}
	s.state.history = p.history
	_, err = s.apply(s.api.t.Context(), &p)
	return err
}
