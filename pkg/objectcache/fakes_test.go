// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// fakeServer is an API server of one resource: it keeps a history, from which a watch begins where it wants.
type fakeServer struct {
	t testing.TB

	mu        sync.Mutex
	version   int
	objects   map[objectName]*RawObject
	history   []fakeEvent
	compacted int
	watches   map[*fakeWatch]struct{}
	lists     int
	refuse    func(within scope) error
	// listing is the context of the last list.
	listing context.Context
	// hold, if set, keeps the answers to lists, which are made when they are asked for, until it is closed.
	hold chan struct{}
	// slow makes watches send nothing but one event at each step.
	slow bool
}

type fakeEvent struct {
	version  int
	old, new *RawObject
}

type fakeWatch struct {
	server *fakeServer
	scope  scope
	events chan watch.Event
	// backlog is what a slow server has not sent yet.
	backlog []watch.Event
}

func newFakeServer(t testing.TB) *fakeServer {
	return &fakeServer{t: t, version: 100, objects: map[objectName]*RawObject{}, watches: map[*fakeWatch]struct{}{}}
}

// write creates or updates an object; an app of "" deletes it.
func (s *fakeServer) write(namespace, name, app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := objectName{namespace, name}
	s.version++
	event := fakeEvent{version: s.version, old: s.objects[at]}
	if app == "" {
		delete(s.objects, at)
	} else {
		event.new = widget(s.t, namespace, name, app, s.version)
		s.objects[at] = event.new
	}
	s.history = append(s.history, event)
	for w := range s.watches {
		w.send(event)
	}
}

func widget(t testing.TB, namespace, name, app string, version int) *RawObject {
	return mustParse(t, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","labels":{"app":%q}}}`,
		name, namespace, namespace+name, version, app))
}

func (w *fakeWatch) send(event fakeEvent) {
	old, new := w.scope.within(event.old), w.scope.within(event.new)
	switch {
	case new != nil && old != nil:
		w.backlog = append(w.backlog, watch.Event{Type: watch.Modified, Object: new})
	case new != nil:
		w.backlog = append(w.backlog, watch.Event{Type: watch.Added, Object: new})
	case old != nil:
		last := widget(w.server.t, old.GetNamespace(), old.GetName(), old.Labels().Get("app"), event.version)
		w.backlog = append(w.backlog, watch.Event{Type: watch.Deleted, Object: last})
	}
	for !w.server.slow && w.step() {
	}
}

// step sends one event, if there is any.
func (w *fakeWatch) step() bool {
	if len(w.backlog) == 0 {
		return false
	}
	w.events <- w.backlog[0]
	w.backlog = w.backlog[1:]
	return true
}

// step lets each watch send one event, and reports whether there was any.
func (s *fakeServer) step() (sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		sent = w.step() || sent
	}
	return sent
}

// bookmark sends the resourceVersion of the server to all watches.
func (s *fakeServer) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.events <- watch.Event{Type: watch.Bookmark, Object: widget(s.t, "", "", "", s.version)}
	}
}

// cut ends all watches, and forgets the history if that is wanted.
func (s *fakeServer) cut(compact bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		delete(s.watches, w)
		close(w.events)
	}
	if compact {
		s.compacted = s.version
	}
}

func (w *fakeWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *fakeWatch) Stop() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if _, open := w.server.watches[w]; open {
		delete(w.server.watches, w)
		close(w.events)
	}
}

// scopes are those of the watches there are.
func (s *fakeServer) scopes() (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		found = append(found, fmt.Sprintf("%s/%s %s", w.scope.namespace, w.scope.name, w.scope.selectorText))
	}
	return found
}

// listsAnswered counts lists.
func (s *fakeServer) listsAnswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeServer) list(ctx context.Context, within scope) (runtime.Object, error) {
	s.mu.Lock()
	list := &rawList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, o := range s.objects {
		if within.matches(o) {
			list.Items = append(list.Items, o)
		}
	}
	var err error
	if s.refuse != nil {
		err = s.refuse(within)
	}
	hold := s.hold
	s.listing = ctx
	s.lists++
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *fakeServer) watch(within scope, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(within); err != nil {
			return nil, err
		}
	}
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if from < s.compacted {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	w := &fakeWatch{server: s, scope: within, events: make(chan watch.Event, 100000)}
	for _, event := range s.history {
		if event.version > from {
			w.send(event)
		}
	}
	s.watches[w] = struct{}{}
	return w, nil
}

func (s *fakeServer) open(_ schema.GroupVersionResource, within scope, _ func(namespace, name []byte) *RawObject) (cache.ListerWatcher, error) {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return s.list(ctx, within) },
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return s.watch(within, options)
		},
	}, noWatchList{}), nil
}

// noWatchList says that this server knows nothing of initial events.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// inBubble runs a test on a cache of a fake server, in virtual time. The cache ends before the test does.
func inBubble(t *testing.T, test func(t *testing.T, server *fakeServer, objects *Cache)) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer(t)
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig())))
		objects := newCache(ctx, server.open)
		defer func() {
			stop()
			objects.Wait()
		}()
		test(t, server, objects)
	})
}

// user keeps what it was notified of, and complains when that contradicts itself.
type user struct {
	*Handle
	t testing.TB

	mu       sync.Mutex
	seen     map[objectName]string // app by object
	versions map[objectName]string // the last that it was notified of
	log      []string
	problem  error
}

func acquire(t testing.TB, objects *Cache, namespace, name, selector string) *user {
	t.Helper()
	u := &user{t: t, seen: map[objectName]string{}, versions: map[objectName]string{}}
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	u.Handle, err = objects.Acquire(Request{
		Resource: widgets, Namespace: namespace, Name: name, Selector: parsed, OnChange: u.change,
		OnProblem: func(problem error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.problem = problem
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *user) change(old, new *RawObject) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old == nil && new == nil {
		u.t.Error("notified of nothing")
		return
	}
	at := old
	if new != nil {
		at = new
	}
	name := nameOf(at)
	app, known := u.seen[name]
	if known != (old != nil) || old != nil && old.Labels().Get("app") != app {
		u.t.Errorf("%v: notified of a change from %v, having seen %q (%v)", name, old, app, known)
	}
	if new == nil {
		delete(u.seen, name)
		u.log = append(u.log, "deleted "+name.name)
		return
	}
	if newer(u.versions[name], new.GetResourceVersion()) {
		u.t.Errorf("%v went back from %s to %s", name, u.versions[name], new.GetResourceVersion())
	}
	u.versions[name] = new.GetResourceVersion()
	u.seen[name] = new.Labels().Get("app")
	verb := "added "
	if old != nil {
		verb = "changed "
	}
	u.log = append(u.log, verb+name.name)
}

// takeLog returns the notifications since the last call.
func (u *user) takeLog() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	log := u.log
	u.log = nil
	return log
}

func (u *user) toldProblem() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.problem
}

// wantUpToDate compares what the user was notified of, and what it reads, with what the server has for it.
func (s *fakeServer) wantUpToDate(u *user) {
	s.t.Helper()
	s.mu.Lock()
	want := map[objectName]string{}
	for name, o := range s.objects {
		if u.scope.matches(o) {
			want[name] = o.Labels().Get("app")
		}
	}
	s.mu.Unlock()
	u.mu.Lock()
	notified := maps.Clone(u.seen)
	u.mu.Unlock()
	if diff := cmp.Diff(want, notified, cmp.AllowUnexported(objectName{})); diff != "" {
		s.t.Errorf("the user was notified of something else than there is: %s", diff)
	}
	read := map[objectName]string{}
	for _, o := range u.List("", nil) {
		read[nameOf(o)] = o.Labels().Get("app")
	}
	if diff := cmp.Diff(want, read, cmp.AllowUnexported(objectName{})); diff != "" {
		s.t.Errorf("what the user reads is not what there is: %s", diff)
	}
	if !u.HasSynced() {
		s.t.Error("the user is not synced")
	}
}
