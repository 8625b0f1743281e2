// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestUserIsNotified(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		u := acquire(t, objects, "", "", "")
		if !cache.WaitFor(t.Context(), "widgets", u.Synced()) {
			t.Fatal("the user is never synced")
		}
		server.write("ns", "b", "x")
		synctest.Wait()
		server.write("ns", "a", "y")
		synctest.Wait()
		server.write("ns", "b", "")
		synctest.Wait()
		if diff := cmp.Diff([]string{"added a", "added b", "changed a", "deleted b"}, u.takeLog()); diff != "" {
			t.Error(diff)
		}
		server.wantUpToDate(u)
	})
}

func TestASyncedUserIsNotifiedOnceAfterAllObjects(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		server.write("ns", "b", "x")
		for namespace, want := range map[string][]string{"ns": {"object", "object", "synced", "object"}, "empty": {"synced", "object"}} {
			var log []string
			handle, err := objects.Acquire(Request{
				Resource: widgets, Namespace: namespace,
				OnChange: func(_, _ *RawObject) { log = append(log, "object") },
				OnSynced: func() { log = append(log, "synced") },
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			server.write(namespace, "late", "x")
			synctest.Wait()
			if diff := cmp.Diff(want, log); diff != "" {
				t.Errorf("in %q: %s", namespace, diff)
			}
			handle.Release()
		}
	})
}

func TestASlowUserIsSyncedBeforeItGetsChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		proceed := make(chan struct{})
		var log []string
		_, err := objects.Acquire(Request{
			Resource: widgets,
			OnChange: func(_, _ *RawObject) { <-proceed; log = append(log, "object") },
			OnSynced: func() { log = append(log, "synced") },
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		server.write("ns", "a", "y")
		server.write("ns", "b", "x")
		synctest.Wait()
		close(proceed)
		synctest.Wait()
		if diff := cmp.Diff([]string{"object", "synced", "object", "object"}, log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNamedFindsTheObjectsOfAllNamespaces(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		for _, namespace := range []string{"n1", "n2", "n3"} {
			server.write(namespace, "a", "x")
		}
		server.write("n1", "b", "x")
		server.write("n3", "a", "y")
		u := acquire(t, objects, "", "", "app=x")
		synctest.Wait()
		var found []string
		for _, o := range u.Named("a") {
			found = append(found, o.GetNamespace()+"/"+o.GetName())
		}
		slices.Sort(found)
		if diff := cmp.Diff([]string{"n1/a", "n2/a"}, found); diff != "" {
			t.Error(diff)
		}
	})
}

func TestListAfterCompaction(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		for _, name := range []string{"same", "changed", "deleted"} {
			server.write("ns", name, "x")
		}
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		u.takeLog()
		server.set(func() { server.refuse = func(scope) error { return errors.New("away") } })
		server.cut(false)
		synctest.Wait()
		server.write("ns", "changed", "y")
		server.write("ns", "deleted", "")
		server.write("ns", "new", "x")
		server.cut(true)
		server.set(func() { server.refuse = nil })
		time.Sleep(time.Minute)
		got := u.takeLog()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"added new", "changed changed", "deleted deleted"}, got); diff != "" {
			t.Error(diff)
		}
		server.wantUpToDate(u)
	})
}

func TestEndedWatchResumes(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		time.Sleep(10 * time.Second)
		server.cut(false)
		server.write("ns", "b", "x")
		synctest.Wait()
		server.wantUpToDate(u)
		if lists := server.listsAnswered(); lists != 1 {
			t.Errorf("%d lists", lists)
		}
	})
}

func TestABookmarkRaisesTheVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		u := acquire(t, objects, "ns", "", "")
		synctest.Wait()
		server.write("elsewhere", "a", "x")
		synctest.Wait()
		if got := u.LastStoreSyncResourceVersion(); got != "100" {
			t.Errorf("version %s before the bookmark", got)
		}
		server.bookmark()
		synctest.Wait()
		if got := u.LastStoreSyncResourceVersion(); got != "101" {
			t.Errorf("version %s after the bookmark", got)
		}
	})
}

// A user that is notified of its own write acts immediately, and is not notified again when the cache says that it has come so far.
func TestVersionAtNotification(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeServer, objects *Cache) {
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		f := u.feed.Load()
		at := f.current // after each change the Reflector reports how far that is: here it does not come to that
		for i, take := range []func(*source, *RawObject){f.put, f.put, f.remove} {
			take(at, widget(t, "ns", "a", "x", 101+i))
			if got := u.LastStoreSyncResourceVersion(); got != fmt.Sprint(101+i) {
				t.Errorf("a user that is notified of version %d reads that the cache is at %s", 101+i, got)
			}
		}
	})
}

func TestObjectLeavesASelector(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		x, all := acquire(t, objects, "", "", "app=x"), acquire(t, objects, "", "", "")
		synctest.Wait()
		x.takeLog()
		all.takeLog()
		server.write("ns", "a", "y")
		synctest.Wait()
		if diff := cmp.Diff([]string{"deleted a"}, x.takeLog()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"changed a"}, all.takeLog()); diff != "" {
			t.Error(diff)
		}
		if x.Get("ns", "a") != nil || all.Get("ns", "a") == nil {
			t.Error("they do not read what they were notified of")
		}
	})
}

func TestTheWatchIsAsNarrowAsItsUsersAgree(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		want := func(scopes ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(scopes, server.scopes()); diff != "" {
				t.Error(diff)
			}
		}
		one := acquire(t, objects, "ns", "", "app=x,!gone")
		want("ns/ app=x,!gone")
		two := acquire(t, objects, "ns", "", "app=x")
		want("ns/ ")
		three := acquire(t, objects, "other", "", "app=x")
		want("/ ")
		one.Release()
		time.Sleep(narrowDelay)
		want("/ app=x")
		four := acquire(t, objects, "", "", "app=y")
		want("/ ")
		four.Release()
		three.Release()
		want("/ ")
		time.Sleep(narrowDelay)
		want("ns/ app=x")
		again := acquire(t, objects, "ns", "", "app=x,!gone")
		want("ns/ ")
		time.Sleep(narrowDelay / 2)
		again.Release()
		time.Sleep(narrowDelay)
		want("ns/ app=x")
		if lists := server.listsAnswered(); lists != 8 {
			t.Errorf("%d lists", lists)
		}
		two.Release()
		want()
	})
}

func TestWideningKeepsNewerObjects(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		for _, name := range []string{"same", "changed", "deleted", "recreated"} {
			server.write("ns", name, "x")
		}
		server.write("other", "o", "x")
		u := acquire(t, objects, "ns", "", "")
		synctest.Wait()
		u.takeLog()
		hold := make(chan struct{})
		server.set(func() { server.hold = hold })
		wide := acquire(t, objects, "", "", "")
		synctest.Wait() // its list is made now, and on its way
		for _, name := range []string{"changed", "deleted"} {
			server.write("ns", name, "w")
		}
		synctest.Wait()
		server.write("ns", "changed", "y")
		server.write("ns", "deleted", "")
		server.write("ns", "recreated", "")
		synctest.Wait()
		server.write("ns", "recreated", "z")
		server.write("ns", "new", "x")
		server.write("other", "o", "y")
		synctest.Wait()
		before := u.takeLog()
		if len(before) != 7 {
			t.Errorf("meanwhile the user was notified of %q", before)
		}
		if wide.HasSynced() || len(wide.takeLog()) > 0 {
			t.Error("the new user is served before his list is there")
		}
		server.set(func() { server.slow = true })
		close(hold)
		for steps := 0; ; steps++ { // the wide watch reports again all that has happened since its list
			synctest.Wait()
			if after := u.takeLog(); len(after) > 0 {
				t.Errorf("%d events after the wide watch took over, the user was notified of %q", steps, after)
			}
			server.wantUpToDate(u)
			if !server.step() {
				break
			}
		}
		server.wantUpToDate(wide)
		if n := len(server.scopes()); n != 1 {
			t.Errorf("%d watches", n)
		}
	})
}

func TestRefusedUserDoesNotDisturbOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.set(func() {
			server.refuse = func(within scope) error {
				if within.namespace == "" {
					return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
				}
				return nil
			}
		})
		u := acquire(t, objects, "ns", "", "")
		synctest.Wait()
		wide := acquire(t, objects, "", "", "")
		for i := range 100 {
			server.write("ns", fmt.Sprint("short", i), "x")
			server.write("ns", fmt.Sprint("short", i), "")
		}
		time.Sleep(time.Hour)
		server.write("ns", "a", "x")
		synctest.Wait()
		server.wantUpToDate(u)
		f := u.view()
		kept := len(f.deleted)
		f.mu.RUnlock()
		if kept > 0 {
			t.Errorf("%d deletions are kept for a source that is refused for an hour", kept)
		}
		if problem := u.toldProblem(); problem != nil {
			t.Errorf("the user that is served is notified of %v", problem)
		}
		problem := wide.toldProblem()
		if !apierrors.IsForbidden(problem) || !strings.Contains(fmt.Sprint(problem), `{apiGroups: ["example.com"], resources: ["widgets"], verbs: ["list", "watch"]}`) {
			t.Errorf("notified of %v", problem)
		}
		server.set(func() { server.refuse = nil })
		time.Sleep(retryMax)
		server.wantUpToDate(wide)
		if problem := wide.toldProblem(); problem != nil || wide.Problem() != nil {
			t.Errorf("still notified of %v", problem)
		}
	})
}

func TestAResourceThatIsNotServedIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.set(func() {
			server.refuse = func(scope) error { return apierrors.NewNotFound(widgets.GroupResource(), "") }
		})
		u := acquire(t, objects, "", "", "")
		time.Sleep(time.Hour)
		if problem := u.toldProblem(); problem == nil || !strings.Contains(problem.Error(), "waiting for the API server to serve widgets.v1.example.com") {
			t.Errorf("notified of %v", problem)
		}
		if lists := server.listsAnswered(); lists < 100 || lists > 300 {
			t.Errorf("%d lists in an hour", lists)
		}
		server.set(func() { server.refuse = nil })
		objects.Retry(widgets.GroupResource())
		synctest.Wait()
		server.wantUpToDate(u)
	})
}

// acceptingWatcher accepts watches, and sends nothing.
type acceptingWatcher struct{ cache.ListerWatcher }

func (acceptingWatcher) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// TestProblemLastsUntilInitialEvents: a watch that is accepted shows nothing yet of what was deleted while there was no right to watch.
func TestProblemLastsUntilInitialEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "x")
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		server.set(func() {
			server.refuse = func(scope) error { return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no")) }
		})
		server.cut(true)
		time.Sleep(retryMin)
		f := u.view()
		s := f.current
		f.mu.RUnlock()
		watched := &reportingListWatch{ListerWatcher: acceptingWatcher{}, source: s}
		initial := true
		if _, err := watched.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &initial}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if problem := u.toldProblem(); !apierrors.IsForbidden(problem) {
			t.Errorf("before the initial events the problem is %v", problem)
		}
		f.replace(s, nil, "1000")
		synctest.Wait()
		if problem := u.toldProblem(); problem != nil {
			t.Errorf("after the initial events the problem is %v", problem)
		}
	})
}

// TestStallIsReported: a transport retries a list or watch by itself. A reason that the user can do something about is more important.
func TestStallIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		u := acquire(t, objects, "", "", "")
		synctest.Wait()
		wantProblem := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, problem := range []error{u.Problem(), u.toldProblem()} {
				if want == "" && problem != nil || want != "" && (problem == nil || !strings.Contains(problem.Error(), want)) {
					t.Errorf("got the problem %v, want %q", problem, want)
				}
			}
		}
		ReportStalled(t.Context(), errors.New("of another client"))
		wantProblem("")
		ReportStalled(server.listing, errors.New("conversion failed"))
		wantProblem("no list or watch of widgets.v1.example.com succeeds, so that changes are not seen: conversion failed")
		if _, ok := errors.AsType[*StalledError](u.Problem()); !ok {
			t.Errorf("the problem is a %T", u.Problem())
		}
		server.set(func() {
			server.refuse = func(scope) error { return apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no")) }
		})
		server.cut(true)
		time.Sleep(retryMin)
		wantProblem("no right to")
		server.set(func() { server.refuse = nil })
		time.Sleep(retryMax)
		wantProblem("conversion failed")
		ReportStalled(server.listing, nil)
		wantProblem("")
	})
}

func TestSlowUserGetsTheSum(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		server.write("ns", "a", "0")
		proceed := make(chan struct{})
		var notified []string
		slow, err := objects.Acquire(Request{Resource: widgets, OnChange: func(old, new *RawObject) {
			<-proceed
			text := ""
			for _, o := range []*RawObject{old, new} {
				if o != nil {
					text += o.GetName() + o.Labels().Get("app")
				}
				text += ">"
			}
			notified = append(notified, text)
		}})
		if err != nil {
			t.Fatal(err)
		}
		quick := acquire(t, objects, "", "", "")
		synctest.Wait()
		for i := range 1000 {
			server.write("ns", "a", fmt.Sprint(i+1))
			server.write("ns", "short", "x")
			server.write("ns", "short", "")
		}
		server.write("ns", "gone", "x")
		synctest.Wait()
		server.wantUpToDate(quick)
		if slow.HasSynced() {
			t.Error("synced before it was notified of what was there")
		}
		slow.queue.mu.Lock()
		if n := len(slow.queue.order); n > 3 {
			t.Errorf("%d changes of 3 objects wait", n)
		}
		slow.queue.mu.Unlock()
		close(proceed)
		synctest.Wait()
		if diff := cmp.Diff([]string{">a0>", "a0>a1000>", ">gonex>"}, notified); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAPanicOfOneUserIsHisOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
		calls := 0
		if _, err := objects.Acquire(Request{Resource: widgets, OnChange: func(_, _ *RawObject) { calls++; panic("oh") }}); err != nil {
			t.Fatal(err)
		}
		u := acquire(t, objects, "", "", "")
		server.write("ns", "a", "x")
		synctest.Wait()
		server.write("ns", "b", "x")
		synctest.Wait()
		server.wantUpToDate(u)
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestARequestThatCannotBeFulfilledIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeServer, objects *Cache) {
		for name, request := range map[string]Request{
			"no resource":    {},
			"empty selector": {Resource: widgets, Selector: labels.Nothing()},
		} {
			if _, err := objects.Acquire(request); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestUsersWhoComeAndGoMissNothing(t *testing.T) {
	for seed := range int64(50) {
		inBubble(t, func(t *testing.T, server *fakeServer, objects *Cache) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			random := rand.New(rand.NewSource(seed))
			pick := func(of ...string) string { return of[random.Intn(len(of))] }
			var users []*user
			for range 400 {
				switch random.Intn(14) {
				case 13:
					for _, namespace := range []string{"n1", "n2"} {
						server.redefine(namespace, pick("a", "b", "c", "d"), pick("x", "y", "z"))
					}
					objects.Reload(widgets.GroupResource())
				case 12:
					switch random.Intn(3) {
					case 0:
						server.forbid(ofAllNamespaces)
					case 1:
						server.forbid(func(within scope) bool { return within.name == "" })
					default:
						server.set(func() { server.refuse = nil })
					}
				case 0:
					users = append(users, acquire(t, objects, pick("", "n1", "n1", "n2"), pick("", "", "", "a"), pick("", "", "app=x", "app in (x,y)")))
				case 1:
					if len(users) > 0 {
						i := random.Intn(len(users))
						users[i].Release()
						users = slices.Delete(users, i, i+1)
					}
				case 2:
					server.cut(random.Intn(3) == 0)
				case 3:
					server.bookmark()
				case 4:
					hold := make(chan struct{})
					server.set(func() { server.hold = hold })
					time.AfterFunc(time.Duration(random.Intn(4000))*time.Millisecond, func() { close(hold) })
				case 5:
					server.set(func() { server.hold = nil })
				case 6:
					time.Sleep(time.Duration(random.Intn(20)) * time.Second)
				case 7:
					time.Sleep(time.Duration(random.Intn(1000)) * time.Millisecond)
				default:
					server.write(pick("n1", "n2"), pick("a", "b", "c", "d"), pick("x", "y", "z", ""))
					if random.Intn(2) == 0 {
						synctest.Wait()
					}
				}
			}
			server.forbid(func(within scope) bool { return seed%2 == 0 && within.namespace == "" })
			time.Sleep(3 * time.Minute)
			for _, u := range users {
				if seed%2 == 0 && u.scope.namespace == "" {
					continue // it has not the right
				}
				server.wantUpToDate(u)
				if got := u.LastStoreSyncResourceVersion(); got == "" {
					t.Error("no version")
				}
			}
		})
	}
}
