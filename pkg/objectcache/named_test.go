// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func wantScopes(t *testing.T, server *fakeServer, want ...string) {
	t.Helper()
	synctest.Wait()
	got := server.scopes()
	slices.Sort(got)
	if diff := cmp.Diff(append([]string(nil), want...), got); diff != "" {
		t.Errorf("the watches: %s", diff)
	}
}

func TestAnObjectByNameHasAWatchOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		a := acquire(t, objects, "ns", "a", "")
		sameA := acquire(t, objects, "ns", "a", "")
		b := acquire(t, objects, "ns", "b", "")
		everyA := acquire(t, objects, "", "a", "")
		wantScopes(t, server, "/a ", "ns/a ", "ns/b ")
		other := acquire(t, objects, "other", "", "")
		wantScopes(t, server, "/a ", "ns/a ", "ns/b ", "other/ ")
		for _, name := range []string{"a", "b", "c"} {
			server.write("ns", name, "x")
			server.write("other", name, "x")
		}
		synctest.Wait()
		for _, u := range []*user{a, sameA, b, everyA, other} {
			server.wantUpToDate(u)
		}
		a.Release()
		b.Release()
		wantScopes(t, server, "/a ", "ns/a ", "other/ ")
		sameA.Release()
		everyA.Release()
		other.Release()
		wantScopes(t, server)
	})
}

func TestANameUsesASharedWatchThatHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		shared := acquire(t, objects, "ns", "", "")
		synctest.Wait()
		a := acquire(t, objects, "ns", "a", "")
		wantScopes(t, server, "ns/ ")
		server.wantUpToDate(a)
		wide := acquire(t, objects, "", "", "")
		wantScopes(t, server, "/ ")
		shared.Release()
		wide.Release() // the last one that needs more than the name
		wantScopes(t, server, "ns/a ")
		server.write("ns", "a", "y")
		synctest.Wait()
		server.wantUpToDate(a)
		if diff := cmp.Diff([]string{"added a", "changed a"}, a.takeLog()); diff != "" {
			t.Error(diff)
		}
		if lists := server.listsAnswered(); lists != 3 {
			t.Errorf("%d lists", lists)
		}
		a.Release()
		wantScopes(t, server)
	})
}

// What others need next is neither widened for a guest, nor does the guest lose what it has seen, or miss what happens meanwhile.
func TestAGuestMovesWhenTheSharedWatchIsNarrowed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		for _, name := range []string{"same", "changed", "deleted"} {
			server.write("ns", name, "x")
		}
		wide := acquire(t, objects, "", "", "")
		other := acquire(t, objects, "other", "", "")
		synctest.Wait()
		var guests []*user
		for _, name := range []string{"same", "changed", "deleted", "new"} {
			guests = append(guests, acquire(t, objects, "ns", name, ""))
		}
		synctest.Wait()
		wide.Release()
		wantScopes(t, server, "/ ")
		hold := make(chan struct{})
		server.set(func() { server.hold = hold })
		time.Sleep(narrowDelay) // the guests move now, and their lists are on their way
		synctest.Wait()
		for _, g := range guests {
			if !g.HasSynced() || g.LastStoreSyncResourceVersion() == "" {
				t.Error("a guest that was served is not any more")
			}
			if g.Get("ns", g.scope.name) == nil && g.scope.name != "new" {
				t.Errorf("a guest reads no %s while it moves", g.scope.name)
			}
			g.takeLog()
		}
		server.write("ns", "changed", "y")
		server.write("ns", "deleted", "")
		server.write("ns", "new", "x")
		close(hold)
		synctest.Wait()
		for i, want := range [][]string{nil, {"changed changed"}, {"deleted deleted"}, {"added new"}} {
			server.wantUpToDate(guests[i])
			if diff := cmp.Diff(want, guests[i].takeLog()); diff != "" {
				t.Errorf("%s: %s", guests[i].scope.name, diff)
			}
		}
		wantScopes(t, server, "ns/changed ", "ns/deleted ", "ns/new ", "ns/same ", "other/ ")
		third := acquire(t, objects, "third", "", "")
		server.write("ns", "same", "z")
		wantScopes(t, server, "/ ", "ns/changed ", "ns/deleted ", "ns/new ", "ns/same ")
		server.wantUpToDate(guests[0])
		third.Release()
		other.Release()
	})
}

func TestARefusedNameDoesNotDisturbOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.set(func() {
			server.refuse = func(within scope) error {
				if within.name != "a" {
					return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
				}
				return nil
			}
		})
		b, a := acquire(t, objects, "ns", "b", ""), acquire(t, objects, "ns", "a", "")
		shared := acquire(t, objects, "ns", "", "")
		server.write("ns", "a", "x")
		synctest.Wait()
		server.wantUpToDate(a)
		if a.Problem() != nil || !apierrors.IsForbidden(b.Problem()) || !apierrors.IsForbidden(shared.Problem()) {
			t.Errorf("problems: %v, %v, %v", a.Problem(), b.Problem(), shared.Problem())
		}
		server.set(func() { server.refuse = nil })
		objects.Retry(widgets)
		synctest.Wait()
		server.wantUpToDate(b)
		server.wantUpToDate(shared)
	})
}
