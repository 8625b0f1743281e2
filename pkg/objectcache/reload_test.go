// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// redefine gives an object another app, as a new default of a definition does: its version stays, and watches do not show it.
func (s *fakeServer) redefine(namespace, name, app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := objectName{namespace, name}
	before := s.objects[at]
	if before == nil {
		return
	}
	version, err := strconv.Atoi(before.GetResourceVersion())
	if err != nil {
		s.t.Fatal(err)
	}
	s.objects[at] = widget(s.t, namespace, name, app, version)
}

func TestReloadShowsWhatTheDefinitionChanged(t *testing.T) {
	for _, test := range []struct {
		name string
		// takesOver is what the API server does when the change was seen.
		takesOver func(s *fakeServer, redefine func())
	}{
		{"it ends the watches", func(s *fakeServer, redefine func()) { redefine(); time.Sleep(time.Second); s.cut(false) }},
		{"it has ended them before", func(_ *fakeServer, redefine func()) { redefine(); time.Sleep(reloadDelay) }},
		{"it waits until requests have ended", func(s *fakeServer, redefine func()) {
			time.Sleep(reloadPeriod - time.Second)
			redefine()
			s.cut(false)
		}},
		{"each of two does so by itself", func(s *fakeServer, redefine func()) {
			s.cut(false)
			time.Sleep(time.Minute)
			redefine()
			s.cut(false)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
				for _, name := range []string{"a", "b", "c"} {
					server.write("ns", name, "x")
				}
				all, one := acquire(t, objects, "ns", "", ""), acquire(t, objects, "other", "a", "")
				selected := acquire(t, objects, "ns", "", "app=x")
				synctest.Wait()
				all.takeLog()
				selected.takeLog()
				objects.Reload(widgets.GroupResource())
				if !all.Reloading() || !one.Reloading() {
					t.Error("users are not advised to wait")
				}
				test.takesOver(server, func() {
					server.redefine("ns", "a", "y")
					server.redefine("ns", "b", "y")
				})
				time.Sleep(time.Second)
				for _, u := range []*user{all, one, selected} {
					server.wantUpToDate(u)
					if u.Reloading() {
						t.Error("a user of what is up to date is advised to wait")
					}
				}
				if log := all.takeLog(); len(log) != 2 {
					t.Errorf("the user was notified of %q, want a and b", log)
				}
				server.write("ns", "c", "z")
				synctest.Wait()
				server.wantUpToDate(all)
			})
		})
	}
}

// TestReloadIsNoStorm: users are not notified of what is as it was, and lists do not repeat.
func TestReloadIsNoStorm(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		for i := range 10000 {
			server.write("ns", fmt.Sprint("w", i), "x")
		}
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		u.takeLog()
		lists := server.listsAnswered()
		objects.Reload(widgets.GroupResource())
		time.Sleep(time.Second)
		server.cut(false)
		time.Sleep(2 * reloadPeriod)
		server.cut(false)
		time.Sleep(time.Minute)
		if again := server.listsAnswered() - lists; again != 1 {
			t.Errorf("%d lists, want 1", again)
		}
		if diff := cmp.Diff([]string(nil), u.takeLog()); diff != "" {
			t.Errorf("the user was notified: %s", diff)
		}
		server.wantUpToDate(u)
	})
}

// TestReloadOfLaterUser: the API server takes over the change after a user has come.
func TestReloadOfLaterUser(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		objects.Reload(widgets.GroupResource())
		u := acquire(t, objects, "ns", "", "")
		time.Sleep(2 * time.Second) // a shorter watch is listed again anyway
		server.redefine("ns", "a", "y")
		server.cut(false)
		time.Sleep(time.Second)
		server.wantUpToDate(u)
		objects.Reload(schema.GroupResource{Resource: "others"})
		time.Sleep(2 * reloadPeriod)
		objects.Reload(schema.GroupResource{Resource: "others"})
		if n := len(objects.definitions.changed); n != 1 {
			t.Errorf("%d changes are kept", n)
		}
	})
}

// TestReloadIsNotWaitedForLong: the lists fail, which is another problem.
func TestReloadIsNotWaitedForLong(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		server.forbid(ofAllNamespaces)
		objects.Reload(widgets.GroupResource())
		time.Sleep(reloadPatience - time.Second)
		if !u.Reloading() {
			t.Error("the user does not wait")
		}
		time.Sleep(time.Second)
		if u.Reloading() {
			t.Error("the user still waits")
		}
	})
}
