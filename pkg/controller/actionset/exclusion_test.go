// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// A sync is alone between the others. It does not wait long for them, and they have most of the time.
func TestExclusion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusion()
		begin := func() *runningSync {
			t.Helper()
			r, err := e.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		goAlone := func(r *runningSync, want bool, wantAfter time.Duration) {
			t.Helper()
			if alone, after, err := r.goAlone(t.Context()); alone != want || after != wantAfter || err != nil {
				t.Errorf("alone: %t, after %s, %v; want %t, after %s", alone, after, err, want, wantAfter)
			}
		}
		slow, suspect, another := begin(), begin(), begin()
		first := time.Now()
		go func() {
			time.Sleep(time.Second)
			goAlone(another, false, time.Second) // one waits already
			another.end()
		}()
		go func() {
			time.Sleep(2 * time.Second)
			begin().end()
			if waited := time.Since(first); waited != aloneWait {
				t.Errorf("a sync has begun after %s, want %s", waited, aloneWait)
			}
		}()
		goAlone(suspect, false, aloneRest*aloneWait)
		slow.end()
		goAlone(suspect, false, aloneRest*aloneWait) // it rests
		suspect.end()
		time.Sleep(aloneRest * aloneWait)
		slow, suspect = begin(), begin()
		go func() {
			time.Sleep(3 * time.Second)
			slow.end()
		}()
		goAlone(suspect, true, 0)
		go func() {
			time.Sleep(time.Second)
			suspect.letOthersRun()
			time.Sleep(time.Hour)
			suspect.end()
		}()
		began := time.Now()
		next := begin()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("a sync has begun after %s, while one was alone, want 1s", waited)
		}
		goAlone(next, false, aloneRest*4*time.Second)
		next.end()
		time.Sleep(2 * time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		slow, suspect = begin(), begin()
		if alone, _, err := suspect.goAlone(ctx); alone || err == nil {
			t.Errorf("alone: %t, %v, though the process ends", alone, err)
		}
		suspect.end()
		slow.end()
		if !e.syncs.TryAcquire(maxSyncs) {
			t.Error("a sync that has ended counts")
		}
	})
}

// Three processes end while they read what a phase needs. In the fourth one no other ActionSet is looked at until it has done that, and has recorded it.
func TestAloneAfterEnds(t *testing.T) {
	suspect := configMapPhase("one{{ .ConfigMaps.c.Name }}")
	suspect.Name = "one"
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{configMapPhase("first"), suspect}}})
	inBubble(t, nil, blueprint, func(t *testing.T, a *apiServer) {
		var mu sync.Mutex
		var requests []string
		var hangs bool
		a.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				suspected := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps/c")
				mu.Lock()
				hangs := hangs && suspected
				mu.Unlock()
				if hangs {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				if suspected || r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
					time.Sleep(5 * time.Second)
				}
				response, err := next.RoundTrip(r)
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
				return response, err
			})
		}
		hang := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			hangs = now
		}
		a.createConfigMap("c", "")
		set := newSet("go")
		set.Spec.Actions[0].ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {Name: "c"}}
		a.create(set)
		a.startProcess()
		a.wait(4 * time.Second) // it reads the ConfigMap to see that it exists
		hang(true)
		a.wait(4 * time.Second)
		for range maxEnded - 1 {
			a.stopProcess()
			a.startProcess()
			a.wait(time.Second)
		}
		a.stopProcess()
		if by := phaseIn(a.set().Status, phaseKey{0, 1}).StartedBy; strings.Count(by, ",") != maxEnded-2 {
			t.Fatalf("the phase that is prepared is recorded as started by %q: %s", by, a.states())
		}
		hang(false)
		other := newSet("go")
		other.Name, other.UID = "other", "uid-other"
		other.Spec.Actions[0].Blueprint = "plain"
		a.blueprints.Create(renamed(newBlueprint(map[string]v1alpha1.BlueprintAction{"go": actionOf()}), "plain"))
		a.startProcess()
		a.wait(time.Second)
		mu.Lock()
		requests = nil
		mu.Unlock()
		a.create(other)
		a.waitHour()
		mu.Lock()
		defer mu.Unlock()
		suspected, begun, started := slices.Index(requests, "GET c"), slices.Index(requests, "GET ns"), slices.Index(requests, "POST configmaps")
		if suspected < 0 || begun < suspected || started < begun {
			t.Errorf("the suspected phase has read its ConfigMap with request %d, and created one with %d, and the other ActionSet has read its subject with %d, of %q",
				suspected, started, begun, requests)
		}
		for _, name := range []string{"s", "other"} {
			if got := a.sets.Get("ns", name).Status.State; got != v1alpha1.StateComplete {
				t.Errorf("%s is %s: %s", name, got, a.states())
			}
		}
	})
}
