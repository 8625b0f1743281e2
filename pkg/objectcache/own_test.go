// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"slices"
	"strings"
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
		objects.Retry(widgets.GroupResource())
		synctest.Wait()
		server.wantUpToDate(b)
		server.wantUpToDate(shared)
	})
}

// forbid makes the server forbid lists and watches, and ends those that there are.
func (s *fakeServer) forbid(forbidden func(within scope) bool) {
	s.set(func() {
		s.refuse = func(within scope) error {
			if forbidden(within) {
				return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
			}
			return nil
		}
	})
	s.cut(false)
}

func ofAllNamespaces(within scope) bool { return within.namespace == "" }

func TestForbiddenUnionIsWatchedInParts(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.forbid(ofAllNamespaces)
		for _, namespace := range []string{"n1", "n2", "n3"} {
			server.write(namespace, "a", "x")
		}
		together := []*user{acquire(t, objects, "n1", "", ""), acquire(t, objects, "n2", "", "app=x"), acquire(t, objects, "n2", "", "app=x")}
		wantScopes(t, server, "n1/ ", "n2/ app=x")
		wide := acquire(t, objects, "", "", "")
		synctest.Wait()
		later := acquire(t, objects, "n3", "", "")
		wantScopes(t, server, "n1/ ", "n2/ app=x", "n3/ ")
		narrow := append(together, later)
		for _, u := range narrow {
			server.wantUpToDate(u)
			if problem := u.Problem(); problem != nil {
				t.Errorf("a user of %s has the problem %v", u.scope.namespace, problem)
			}
		}
		if !apierrors.IsForbidden(wide.Problem()) {
			t.Errorf("the user of all namespaces has the problem %v", wide.Problem())
		}
		server.set(func() { server.refuse = nil })
		time.Sleep(retryMax)
		server.write("n2", "b", "x")
		synctest.Wait()
		server.wantUpToDate(wide)
		for _, u := range narrow {
			server.wantUpToDate(u)
			u.Release()
		}
		wantScopes(t, server, "/ ")
		wide.Release()
		wantScopes(t, server)
	})
}

// The right to watch all namespaces is replaced by Roles: users that need less are served without a gap.
func TestForbiddenSharedWatchIsWatchedInParts(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("n1", "kept", "x")
		server.write("n1", "deleted", "x")
		server.write("n2", "a", "x")
		wide := acquire(t, objects, "", "", "")
		synctest.Wait()
		narrow := []*user{acquire(t, objects, "n1", "", ""), acquire(t, objects, "n1", "", ""), acquire(t, objects, "n2", "a", "")}
		wantScopes(t, server, "/ ")
		for _, u := range narrow {
			u.takeLog()
		}
		server.forbid(ofAllNamespaces)
		server.write("n1", "deleted", "")
		server.write("n1", "new", "x")
		synctest.Wait()
		time.Sleep(retryMax)
		wantScopes(t, server, "n1/ ", "n2/a ")
		for _, u := range narrow {
			server.wantUpToDate(u)
			if u.Problem() != nil || u.LastStoreSyncResourceVersion() == "" {
				t.Errorf("the problem %v, the version %s", u.Problem(), u.LastStoreSyncResourceVersion())
			}
		}
		for i, want := range [][]string{{"added new", "deleted deleted"}, {"added new", "deleted deleted"}, nil} {
			log := narrow[i].takeLog()
			slices.Sort(log)
			if diff := cmp.Diff(want, log); diff != "" {
				t.Errorf("user %d: %s", i, diff)
			}
		}
		if !apierrors.IsForbidden(wide.Problem()) {
			t.Errorf("the user of all namespaces has the problem %v", wide.Problem())
		}
	})
}

// The first list of their own watch may come while some of them have not moved yet.
func TestUsersThatMoveTogetherMissNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("n1", "a", "x")
		acquire(t, objects, "", "", "")
		var together []*user
		for range 300 {
			together = append(together, acquire(t, objects, "n1", "", ""))
		}
		synctest.Wait()
		server.set(func() { server.slow = true })
		server.write("n1", "a", "y") // which the watch has not sent when it ends
		server.forbid(ofAllNamespaces)
		time.Sleep(time.Minute)
		for _, u := range together {
			server.wantUpToDate(u)
		}
	})
}

func TestForbiddenIsExplainedForTheScope(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.forbid(func(scope) bool { return true })
		for _, test := range []struct{ namespace, name, want string }{
			{"", "", `add to a ClusterRole of this account the rule {apiGroups: ["example.com"], resources: ["widgets"], verbs: ["list", "watch"]}`},
			{"", "a", `a ClusterRole of this account the rule {apiGroups: ["example.com"], resources: ["widgets"], resourceNames: ["a"], verbs:`},
			{"ns", "", `add to a Role of this account in the namespace ns the rule {apiGroups: ["example.com"], resources: ["widgets"], verbs:`},
		} {
			u := acquire(t, objects, test.namespace, test.name, "")
			synctest.Wait()
			if problem := u.Problem(); problem == nil || !strings.Contains(problem.Error(), test.want) {
				t.Errorf("%s/%s: %v", test.namespace, test.name, problem)
			}
		}
	})
}

// A user joins the watch that another one has of its own.
func TestWatchOfOneScopeIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.forbid(ofAllNamespaces)
		server.write("n1", "a", "x")
		acquire(t, objects, "n1", "", "")
		acquire(t, objects, "n2", "", "")
		wantScopes(t, server, "n1/ ", "n2/ ")
		lists := server.listsAnswered()
		later := acquire(t, objects, "n1", "", "")
		wantScopes(t, server, "n1/ ", "n2/ ")
		server.wantUpToDate(later)
		if again := server.listsAnswered() - lists; again != 0 {
			t.Errorf("%d more lists", again)
		}
	})
}

// What is forbidden stays so for its users while the API server gives other errors.
func TestRefusalLastsUntilTheNextWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		server.forbid(ofAllNamespaces)
		time.Sleep(retryMax)
		server.set(func() {
			server.refuse = func(scope) error { return apierrors.NewTimeoutError("behind", 1) }
		})
		time.Sleep(2 * retryMax)
		if !apierrors.IsForbidden(u.Problem()) {
			t.Errorf("the problem is %v", u.Problem())
		}
		server.set(func() { server.refuse = nil })
		time.Sleep(retryMax)
		if u.Problem() != nil {
			t.Errorf("the problem is %v", u.Problem())
		}
	})
}

// A user that needs more than what is forbidden waits for the watch that is being widened for it, which then serves all.
func TestForbiddenWatchIsWidenedNevertheless(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("n1", "a", "x")
		narrow := acquire(t, objects, "n1", "", "")
		synctest.Wait()
		server.set(func() { server.refuse = func(scope) error { return apierrors.NewTimeoutError("behind", 1) } })
		wide := acquire(t, objects, "", "", "")
		synctest.Wait()
		server.set(func() {
			server.refuse = func(within scope) error {
				if within.namespace == "n1" {
					return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
				}
				return apierrors.NewTimeoutError("behind", 1)
			}
		})
		server.cut(false)
		time.Sleep(retryMax)
		server.forbid(func(within scope) bool { return within.namespace == "n1" })
		time.Sleep(2 * retryMax)
		wantScopes(t, server, "/ ")
		server.write("n1", "b", "x")
		synctest.Wait()
		server.wantUpToDate(wide)
		server.wantUpToDate(narrow)
	})
}
