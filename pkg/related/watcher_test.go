// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/objectcache"
)

const configRule = `{"apiVersion":"v1","resource":"configmaps","names":["config"]}`

func wantWatches(t *testing.T, c *fakeCache, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), c.names()); diff != "" {
		t.Errorf("the watches: %s", diff)
	}
}

func wantQueued(t *testing.T, c *fakeCache, want ...int) {
	t.Helper()
	if diff := cmp.Diff(append([]int(nil), want...), c.takeQueued()); diff != "" {
		t.Errorf("the queued keys: %s", diff)
	}
}

func TestAParentIsQueuedWhenItsRelatedObjectsAreThere(t *testing.T) {
	c, w := newFakeCache(t)
	c.set(configMaps, "own", "config", object(t, configMaps, "own", "config", "1", nil))
	rules := compile(t, v1Parent, configRule, `{"apiVersion":"v1","resource":"nodes"}`)
	if status := w.Ensure(1, rules); status.Synced || status.Problem != nil {
		t.Errorf("before there is an answer: %+v", status)
	}
	c.handle("configmaps own/config").sync()
	wantQueued(t, c) // the Nodes are missing
	if selection, status := w.Select(1); status.Synced || len(selection.Groups) > 0 {
		t.Errorf("half of the related objects are selected: %+v", selection)
	}
	c.handle("nodes").sync()
	wantQueued(t, c, 1)
	selection, status := w.Select(1)
	if !status.Synced || len(selection.Groups) != 2 || len(selection.Groups[0].Objects) != 1 {
		t.Errorf("selected with status %+v: %+v", status, selection)
	}
	c.set(configMaps, "own", "config", object(t, configMaps, "own", "config", "2", nil))
	wantQueued(t, c, 1)
	if changed, _ := w.Select(1); changed.Sum == selection.Sum {
		t.Error("the sum of a changed object is the same")
	}
	c.set(configMaps, "own", "other", object(t, configMaps, "own", "other", "2", nil))
	wantQueued(t, c)
	if status := w.Ensure(1, compile(t, v1Parent, configRule, `{"apiVersion":"v1","resource":"nodes"}`)); !status.Synced {
		t.Errorf("the same rules again: %+v", status)
	}
	if counts := w.Counts(); counts != (Counts{Parents: 1, Rules: 2, Watches: 2}) {
		t.Errorf("%+v", counts)
	}
}

func TestAMissingRightIsReported(t *testing.T) {
	c, w := newFakeCache(t)
	rules := compile(t, v1Parent, configRule)
	w.Ensure(1, rules)
	h := c.handle("configmaps own/config")
	h.request.OnProblem(apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no")))
	wantQueued(t, c, 1)
	if status := w.Ensure(1, rules); status.Synced || !apierrors.IsForbidden(status.Problem) {
		t.Errorf("%+v", status)
	}
	if !apierrors.IsForbidden(w.Problem()) {
		t.Errorf("the problem is %v", w.Problem())
	}
	h.request.OnProblem(apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no")))
	wantQueued(t, c) // nothing new
	h.sync()
	wantQueued(t, c, 1)
	if status := w.Ensure(1, rules); !status.Synced || w.Problem() != nil {
		t.Errorf("%+v, %v", status, w.Problem())
	}

	h.request.OnProblem(errors.New("connection refused"))
	if status := w.Ensure(1, rules); !status.Synced {
		t.Errorf("an interruption of the watch: %+v", status)
	}
	wantQueued(t, c)
	h.request.OnProblem(apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no more")))
	wantQueued(t, c, 1) // it relies on what is not observed any more
	if status := w.Ensure(1, rules); status.Synced || !apierrors.IsForbidden(status.Problem) {
		t.Errorf("the right was taken away: %+v", status)
	}
	h.request.OnProblem(nil)
	wantQueued(t, c, 1)
	if status := w.Ensure(1, rules); !status.Synced {
		t.Errorf("the right was given back: %+v", status)
	}
}

// What was there when a watch began is no news: the parents that wait are queued once, and others have no reason to sync.
func TestTheFirstStateQueuesEachWaitingParentOnce(t *testing.T) {
	c, w := newFakeCache(t)
	for i := range 100 {
		name := fmt.Sprint("c", i)
		c.set(configMaps, "own", name, object(t, configMaps, "own", name, "1", nil))
	}
	w.Ensure(1, compile(t, v1Parent, `{"apiVersion":"v1","resource":"configmaps","names":["c1"]}`))
	c.settle()
	wantQueued(t, c, 1)
	w.Ensure(2, compile(t, v1Parent, `{"apiVersion":"v1","resource":"configmaps"}`))
	c.settle()
	if n := c.queued[2]; n != 1 {
		t.Errorf("the waiting parent is queued %d times", n)
	}
	wantQueued(t, c, 2)
}

func TestWatchesFollowTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newFakeCache(t)
		rule := func(name string) *Rules {
			return compile(t, v1Parent, `{"apiVersion":"v1","resource":"configmaps","names":["`+name+`"]}`)
		}
		w.Ensure(1, rule("a"))
		c.settle()
		w.Ensure(1, rule("b"))
		wantWatches(t, c, "configmaps own/a", "configmaps own/b")
		time.Sleep(3 * releaseDelay)
		wantWatches(t, c, "configmaps own/a", "configmaps own/b") // b is not synced: what takes over must be there first
		c.settle()
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c, "configmaps own/b")
		w.Ensure(2, rule("b"))
		w.Release(1)
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c, "configmaps own/b")
		w.Release(2)
		w.Release(2)
		time.Sleep(releaseDelay / 2)
		w.Ensure(3, rule("b")) // in time: the watch stays
		time.Sleep(releaseDelay)
		wantWatches(t, c, "configmaps own/b")
		if status := w.Ensure(3, rule("b")); !status.Synced || len(c.handles) != 2 {
			t.Errorf("%+v after %d watches", status, len(c.handles))
		}
		w.Release(3)
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c)
		if counts := w.Counts(); counts != (Counts{}) {
			t.Errorf("%+v", counts)
		}
	})
}

func TestManyNamesBecomeOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newFakeCache(t)
		rules := func(i int) *Rules {
			return compile(t, v1Parent, fmt.Sprintf(`{"apiVersion":"v1","resource":"configmaps","names":["c%d"]}`, i))
		}
		for i := range maxOfNamespace {
			w.Ensure(i, rules(i))
		}
		c.settle()
		if n := len(c.names()); n != maxOfNamespace {
			t.Errorf("%d watches", n)
		}
		c.takeQueued()
		w.Ensure(99, rules(99))
		if n := len(c.names()); n != maxOfNamespace+1 {
			t.Errorf("%d watches while the wide one begins", n)
		}
		if status := w.Ensure(3, rules(3)); !status.Synced {
			t.Errorf("a parent that was served is not: %+v", status)
		}
		c.settle()
		wantQueued(t, c, 99)
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c, "configmaps own/")
		for i := range maxOfNamespace / 2 {
			w.Release(i)
		}
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c, "configmaps own/")
		w.Release(maxOfNamespace / 2)
		time.Sleep(2 * releaseDelay)
		c.settle()
		time.Sleep(2 * releaseDelay)
		if n := len(c.names()); n != maxOfNamespace/2 {
			t.Errorf("%d watches: %q", n, c.names())
		}
		for i := maxOfNamespace/2 + 1; i < maxOfNamespace; i++ {
			if _, status := w.Select(i); !status.Synced {
				t.Errorf("parent %d is not served: %+v", i, status)
			}
		}
	})
}

func forbidden() error {
	return apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no"))
}

// TestForbiddenMergeIsWatchedInParts: with the right to many names, and not to all of the namespace, each name is watched.
func TestForbiddenMergeIsWatchedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newFakeCache(t)
		const parents = maxOfNamespace + 1
		rules := func(i int) *Rules {
			return compile(t, v1Parent, fmt.Sprintf(`{"apiVersion":"v1","resource":"configmaps","names":["c%d"]}`, i))
		}
		for i := range parents {
			w.Ensure(i, rules(i))
		}
		wantServed := func() {
			t.Helper()
			for i := range parents {
				if status := w.Ensure(i, rules(i)); !status.Synced {
					t.Errorf("parent %d is not served: %+v", i, status)
				}
			}
			if problem := w.Problem(); problem != nil {
				t.Errorf("the problem is %v", problem)
			}
		}
		wide := c.handle("configmaps own/")
		wide.request.OnProblem(forbidden())
		for _, h := range c.held() {
			if h != wide {
				h.sync()
			}
		}
		if n := len(c.takeQueued()); n != parents {
			t.Errorf("%d parents are queued", n)
		}
		wantServed()
		time.Sleep(10 * releaseDelay)
		if n := len(c.names()); n != parents+1 {
			t.Errorf("%d watches: %q", n, c.names())
		}
		wide.sync() // it is allowed
		time.Sleep(2 * releaseDelay)
		wantServed()
		wantWatches(t, c, "configmaps own/")

		c.takeQueued()
		wide.request.OnProblem(forbidden())
		if n := len(c.takeQueued()); n != parents {
			t.Errorf("%d parents are queued when they are not served", n)
		}
		for i := range parents {
			if status := w.Ensure(i, rules(i)); status.Synced || status.Problem != nil {
				t.Errorf("parent %d, whose watch begins: %+v", i, status)
			}
		}
		for _, h := range c.held() {
			h.sync()
		}
		wantServed()
		for i := range parents {
			w.Release(i)
		}
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c)
	})
}

// TestForbiddenRuleConcernsNoOther: a rule that needs a whole namespace has the problem of the missing right alone.
func TestForbiddenRuleConcernsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newFakeCache(t)
		whole, one := compile(t, v1Parent, `{"apiVersion":"v1","resource":"configmaps"}`), compile(t, v1Parent, configRule)
		w.Ensure(1, whole)
		w.Ensure(2, one)
		wantWatches(t, c, "configmaps own/")
		c.handle("configmaps own/").request.OnProblem(forbidden())
		c.handle("configmaps own/config").sync()
		time.Sleep(2 * releaseDelay)
		if status := w.Ensure(2, one); !status.Synced {
			t.Errorf("the parent that needs one name: %+v", status)
		}
		if status := w.Ensure(1, whole); !apierrors.IsForbidden(status.Problem) || !apierrors.IsForbidden(w.Problem()) {
			t.Errorf("the parent that needs all: %+v; the problem is %v", status, w.Problem())
		}
		c.handle("configmaps own/").sync()
		time.Sleep(2 * releaseDelay)
		wantWatches(t, c, "configmaps own/")
		if _, status := w.Select(2); !status.Synced {
			t.Errorf("the parent that needs one name: %+v", status)
		}
	})
}

func TestARelabelledNamespaceQueuesItsParents(t *testing.T) {
	c, w := newFakeCache(t)
	c.set(configMaps, "n1", "a", object(t, configMaps, "n1", "a", "1", nil))
	c.set(namespacesResource, "", "n1", object(t, namespacesResource, "", "n1", "1", nil))
	w.Ensure(1, compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","namespaceSelector":{"matchLabels":{"team":"x"}}}`))
	w.Ensure(2, compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","namespaceSelector":{"matchLabels":{"team":"y"}}}`))
	c.settle()
	wantWatches(t, c, "configmaps", "namespaces")
	c.takeQueued()
	objects := func() int {
		selection, _ := w.Select(1)
		return len(selection.Groups[0].Objects)
	}
	if n := objects(); n != 0 {
		t.Errorf("%d objects before", n)
	}
	c.set(namespacesResource, "", "n1", object(t, namespacesResource, "", "n1", "2", map[string]string{"team": "x"}))
	wantQueued(t, c, 1)
	if n := objects(); n != 1 {
		t.Errorf("%d objects after", n)
	}
	c.set(namespacesResource, "", "n1", object(t, namespacesResource, "", "n1", "3", map[string]string{"team": "x", "other": "x"}))
	wantQueued(t, c)
	c.set(configMaps, "n1", "a", nil)
	wantQueued(t, c, 1)
	c.set(namespacesResource, "", "n1", nil)
	wantQueued(t, c, 1)
}

func TestAfterCloseNothingHappens(t *testing.T) {
	c, w := newFakeCache(t)
	w.Ensure(1, compile(t, v1Parent, configRule))
	h := c.handle("configmaps own/config")
	w.Close()
	wantWatches(t, c)
	h.request.OnSynced()
	h.request.OnChange(nil, object(t, configMaps, "own", "config", "1", nil))
	h.request.OnProblem(errors.New("late"))
	wantQueued(t, c)
	if status := w.Ensure(2, compile(t, v1Parent, configRule)); status.Synced || status.Problem == nil {
		t.Errorf("%+v", status)
	}
	w.Release(1)
	wantWatches(t, c)
}

// A parent that syncs when it is queued has always seen what there is, in whatever order rules, objects and watches come and go.
func TestNoParentMissesAChange(t *testing.T) {
	for seed := range int64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewSource(seed))
			c, w := newFakeCache(t)
			c.manual = true
			model := newWorld(t, random.Intn)
			seen := map[int]uint64{} // what each parent saw when it was synced last
			syncParents := func(keys []int) {
				for _, key := range keys {
					rules := model.rules[key]
					if rules == nil {
						continue
					}
					delete(seen, key)
					if !w.Ensure(key, rules).Synced {
						continue
					}
					selection, status := w.Select(key)
					if !status.Synced {
						t.Error("the status is another one")
					}
					seen[key] = selection.Sum
				}
			}
			for step := range 400 {
				switch random.Intn(9) {
				case 8:
					if held := c.held(); len(held) > 0 {
						h, problem := held[random.Intn(len(held))], error(nil)
						if random.Intn(3) > 0 && h.request.Name == "" {
							problem = forbidden()
						}
						if problem != nil || h.synced {
							h.request.OnProblem(problem)
						}
					}
				case 0:
					key := random.Intn(20)
					model.rules[key] = compile(t, v2Parent, model.randomRule(), model.randomRule(), model.randomRule())
					syncParents([]int{key})
				case 1:
					key := random.Intn(20)
					delete(model.rules, key)
					delete(seen, key)
					w.Release(key)
				case 2, 3:
					if held := c.held(); len(held) > 0 {
						held[random.Intn(len(held))].sync()
					}
				case 4:
					if held := c.held(); len(held) > 0 {
						if h := held[random.Intn(len(held))]; !h.synced {
							h.request.OnProblem(fmt.Errorf("problem %d", step))
						}
					}
				case 5:
					time.Sleep(time.Duration(random.Intn(20)) * time.Second)
				default:
					resource := []schema.GroupVersionResource{configMaps, secrets, namespacesResource, nodes}[random.Intn(4)]
					namespace, name := model.among("n1", "n2", "n3"), model.among("a", "b", "c")
					if resource == namespacesResource {
						namespace, name = "", namespace
					} else if resource == nodes {
						namespace = ""
					}
					var o *objectcache.RawObject
					if random.Intn(4) > 0 {
						set := map[string]string{"app": model.among("x", "y", "z"), model.among("tier", "other"): "a"}
						o = object(t, resource, namespace, name, strconv.Itoa(step), set)
					}
					c.set(resource, namespace, name, o)
				}
				if random.Intn(3) > 0 {
					syncParents(c.takeQueued())
				}
			}
			c.manual = false
			for range 5 {
				for _, h := range c.held() {
					if h.synced {
						h.request.OnProblem(nil)
					}
				}
				c.settle()
				syncParents(c.takeQueued())
				time.Sleep(2 * releaseDelay)
			}
			for at, o := range c.objects {
				if model.objects[at.resource] == nil {
					model.objects[at.resource] = map[place]*objectcache.RawObject{}
				}
				model.objects[at.resource][at] = o
			}
			model.wantSelections()
			for key, rules := range model.rules {
				if is := rules.Select(model).Sum; seen[key] != is {
					t.Errorf("parent %d has not seen what there is", key)
				}
			}
			for key := range model.rules {
				w.Release(key)
			}
			time.Sleep(3 * releaseDelay)
			wantWatches(t, c)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestTheWatcherMayBeUsedConcurrently(t *testing.T) {
	c, w := newFakeCache(t)
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for i := range 300 {
				key := worker*1000 + i%17
				w.Ensure(key, compile(t, v2Parent, fmt.Sprintf(`{"apiVersion":"v1","resource":"configmaps","names":["c%d"]}`, i%23),
					`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"app":"x"}}}`))
				c.settle()
				c.set(configMaps, "n1", fmt.Sprint("c", i%23), object(t, configMaps, "n1", fmt.Sprint("c", i%23), strconv.Itoa(i), nil))
				c.set(namespacesResource, "", "n1", object(t, namespacesResource, "", "n1", strconv.Itoa(i), map[string]string{"app": "x"}))
				w.Select(key)
				w.Counts()
				if i%5 == 0 {
					w.Release(key)
				}
			}
		})
	}
	running.Wait()
}
