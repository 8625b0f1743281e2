// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	listers "millwright.dev/pkg/generated/listers/immortalcontainers/v1alpha1"
)

func TestStaleCacheWaits(t *testing.T) {
	for lagging, inTime := range map[string]string{"pods": "immortalcontainers", "immortalcontainers": "pods"} {
		t.Run("while the watch of "+lagging+" lags", func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Freeze()
				a.operate()
				a.wants("for a new container", reserveFirst, createsFirst, startedFirst)
				a.release(inTime)
				time.Sleep(time.Hour)
				a.wants("when the cache knows one of two writes")
				a.Thaw()
				synctest.Wait()
				a.podBecomes(podReady)
				a.wants("when it knows both", isReadyFirst)
			})
		})
	}
}

// catchingUp is a lister of ImmortalContainers, and its store, which catches up while it is read.
type catchingUp struct {
	listers.ImmortalContainerLister
	version string
}

func (c *catchingUp) LastStoreSyncResourceVersion() string { return c.version }

func (c *catchingUp) ImmortalContainers(string) listers.ImmortalContainerNamespaceLister {
	return catchingUpNamespace{catchingUp: c}
}

type catchingUpNamespace struct {
	listers.ImmortalContainerNamespaceLister
	*catchingUp
}

func (c catchingUpNamespace) Get(string) (*v1alpha1.ImmortalContainer, error) {
	c.version = "5" // the event comes in just after the old state was read
	return newContainer(), nil
}

func TestReadBeforeCacheCaughtUp(t *testing.T) {
	key := cache.NewObjectName("default", "x")
	containers := &catchingUp{version: "4"}
	c := &Controller{
		containerLister: containers,
		containerStore:  containers,
		podLister:       corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
	}
	c.consistency.WroteAt(key, containers, "5")
	// An event may never come: what was written may be gone before the watch shows it.
	if after, err := c.syncHandler(t.Context(), key); after != controller.StaleCacheDelay || !errors.Is(err, controller.ErrPostponed) {
		t.Errorf("it asks to be called again after %v (%v), want %v", after, err, controller.StaleCacheDelay)
	}
	if containers.version != "4" {
		t.Error("it has read an object before it asked whether the cache is behind")
	}
}

func TestMemoryIsPerObject(t *testing.T) {
	key := cache.NewObjectName("default", "x")
	var m memories
	m.saw(key, podOf(2))
	m.unwatched(key, podOf(1), true) // a late word of an older one
	m.deleting(key, podOf(2))
	if got, want := m.Get(key, "uid-x"), (podMemory{seen: 2, gone: 1, deleting: "uid-pod-2"}); got != want {
		t.Errorf("remembers %+v, want %+v", got, want)
	}
	if got := m.Get(key, "uid-of-the-next-x"); got != (podMemory{}) {
		t.Errorf("of another object of that name it remembers %+v", got)
	}
	m.saw(key, podOf(9, podForeign))
	if got := m.Get(key, "uid-x").seen; got != 2 {
		t.Errorf("a foreign Pod is taken for start %d", got)
	}
	m.Forget(key)
	if got := m.Get(key, "uid-x"); got != (podMemory{}) || m.Len() != 0 {
		t.Errorf("remembers %+v of an object that is gone", got)
	}
}

// TestOrphanLeavesTheWatch: which Pod is in the watch does not depend on its owner, which may have been removed since.
func TestOrphanLeavesTheWatch(t *testing.T) {
	key := cache.NewObjectName("default", "x")
	var m memories
	m.watched(key, podOf(2))
	m.unwatched(key, podOf(2, podOrphan), true)
	if got, want := m.Get(key, "uid-x"), (podMemory{seen: 2}); got != want {
		t.Errorf("remembers %+v, want %+v", got, want)
	}
	m.unwatched(cache.NewObjectName("default", "unknown"), podOf(2, podOrphan), true)
	if n := m.Len(); n != 1 {
		t.Errorf("remembers %d objects, want 1", n)
	}
}

func TestProofThatAPodIsGone(t *testing.T) {
	key := cache.NewObjectName("default", "x")
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		final bool
		want  int64
	}{
		"it terminated and went":                      {podOf(3, podTerminating(0)), true, 3},
		"it was gone when the Pods were listed again": {podOf(3, podTerminating(0)), false, 0},
		"it may only have lost its label":             {podOf(3), true, 0},
		"it had no owner":                             {podOf(3, podTerminating(0), podForeign), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{}
			c.podDeleted(tc.pod, tc.final)
			if got := c.memories.Get(key, "uid-x").gone; got != tc.want {
				t.Errorf("start %d is taken for gone, want %d", got, tc.want)
			}
		})
	}
}
