// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
)

// queueOfNames records the names of the parents that are queued.
type queueOfNames struct {
	mu    sync.Mutex
	names []string
}

func (q *queueOfNames) Enqueue(keys ...Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		q.names = append(q.names, key.Name)
	}
}

func (q *queueOfNames) EnqueueResync(keys ...Key) { q.Enqueue(keys...) }

func (q *queueOfNames) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := q.names
	q.names = nil
	slices.Sort(names)
	return slices.Compact(names)
}

// interruptingSelector matches everything, and calls a function when Start looks at the first parent.
type interruptingSelector struct {
	labels.Selector
	interrupt func()
	once      *sync.Once
}

func (s interruptingSelector) Matches(labels.Labels) bool {
	s.once.Do(s.interrupt)
	return true
}

func (s interruptingSelector) DeepCopySelector() labels.Selector { return s }

// startedController returns a Controller whose Start is interrupted by a function, after its first look at the parents.
func startedController(t *testing.T, api *fakeAPI, queue Queue, interrupt func(c *Controller)) *Controller {
	t.Helper()
	objects, err := objectcache.New(t.Context(), api.config(), objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Wait)
	c := &Controller{Config: Config{Objects: objects, Queue: queue, Changed: func() {}}, name: t.Name(), spec: specWith(t),
		orphans: newOrphanIndex(), blocked: newBlockedParents()}
	if err := c.watch(); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitFor(t.Context(), "", c.parents[0].handle.Synced()) {
		t.Fatal("the cache of parents did not sync")
	}
	c.spec.parents[0].rules = []selection{{labels: interruptingSelector{labels.Everything(), func() { interrupt(c) }, &sync.Once{}}}}
	c.Start()
	return c
}

// eventually fails the test if a condition does not become true.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the condition did not become true within a minute")
		}
	}
}

func thingOf(name string) string {
	return string(parentWith("")[:strings.Index(string(parentWith("")), `"name"`)]) + `"name":"` + name + `"},"spec":{"selector":{"matchLabels":{"app":"a"}}}}`
}

func TestParentsThatChangeDuringStart(t *testing.T) {
	api := startFakeAPI(t, thingOf("deleted"), thingOf("kept"))
	queue := &queueOfNames{}
	c := startedController(t, api, queue, func(c *Controller) {
		c.state(c.parents[0], cache.NewObjectName("ns", "deleted"), c.parents[0].handle.Get("ns", "deleted").GetUID())
		api.put(thingOf("created"))
		api.drop("things/deleted")
		eventually(t, func() bool {
			return c.parents[0].handle.Get("ns", "created") != nil && c.parents[0].handle.Get("ns", "deleted") == nil
		})
	})
	if got, want := queue.take(), []string{"created", "deleted", "kept"}; !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q", got, want)
	}
	api.put(thingOf("later"))
	eventually(t, func() bool { return c.parents[0].handle.Get("ns", "later") != nil })
	eventually(t, func() bool { return slices.Contains(queue.take(), "later") })
}

// TestReloadPostponesSyncs: what is written as a whole must not be made of an object in its old definition.
func TestReloadPostponesSyncs(t *testing.T) {
	for _, changed := range []Resource{things, configMaps} {
		s := newSyncTest(t, startFakeAPI(t, string(parentWith("")), childWith("a", owned)))
		s.started.Store(true)
		s.Objects.Reload(changed.GroupResource())
		if after, err := s.Sync(t.Context(), s.key); after != controller.StaleCacheDelay || !errors.Is(err, controller.ErrPostponed) {
			t.Errorf("%s: it is synced again after %s, %v", changed.Resource, after, err)
		}
		s.wantDid()
	}
}
