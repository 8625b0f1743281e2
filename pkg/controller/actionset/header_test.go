// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// enlarge gives an ActionSet that many bytes of options.
func enlarge(set *v1alpha1.ActionSet, bytes int) *v1alpha1.ActionSet {
	set.Spec.Actions[0].Options = map[string]string{"filler": strings.Repeat("x", bytes)}
	return set
}

// The cache holds a header of a large ActionSet, with any metadata that users give it, and it runs all the same.
func TestLargeSetIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		options, artifacts  int
		labels, annotations map[string]string
		read                bool
	}{
		"small":                      {},
		"almost large":               {options: smallObject - 8<<10},
		"large":                      {options: smallObject, read: true},
		"almost large in memory":     {artifacts: 120},
		"large in memory":            {artifacts: 240, read: true},
		"large by its labels":        {labels: map[string]string{"a": strings.Repeat("x", smallObject)}, read: true},
		"large, with our annotation": {options: smallObject, annotations: map[string]string{annotationHeader: ""}, read: true},
		"small, with our annotation": {annotations: map[string]string{annotationHeader: ""}, read: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := enlarge(newSet("go"), test.options)
			set.Labels, set.Annotations = test.labels, test.annotations
			artifacts := map[string]v1alpha1.Artifact{}
			for i := range test.artifacts {
				artifacts[fmt.Sprint("a", i)] = v1alpha1.Artifact{KeyValue: map[string]string{"": ""}}
			}
			set.Spec.Actions[0].Artifacts = artifacts
			inBubble(t, set, threePhases(), func(t *testing.T, a *apiServer) {
				a.startProcess()
				if got := a.states(); got != allComplete {
					t.Errorf("the states are %s", got)
				}
				if requests := a.takeRequests(); slices.Contains(requests, "get actionsets") != test.read {
					t.Errorf("requests %q", requests)
				}
				cached, err := a.controller.sets.ActionSets("ns").Get("s")
				a.must(err)
				if bytes := sizeOf(cached); bytes > smallObject || test.options+test.artifacts+len(test.labels) > 0 && test.read && bytes > 2<<10 {
					t.Errorf("the cache holds %d bytes", bytes)
				}
				if cached.CreationTimestamp.IsZero() {
					t.Error("in the metrics it has no age")
				}
				if ready := countedAs(cached); len(ready) != 1 || ready[0].Status != metav1.ConditionTrue {
					t.Errorf("in the metrics it counts as %+v", ready)
				}
			})
		})
	}
}

// The size in a header is measured. One that a user has given to a small ActionSet does not count.
func TestMemoryOfHeader(t *testing.T) {
	for name, test := range map[string]struct {
		options, least, most int
	}{"small": {0, smallMemory, smallMemory}, "large": {200_000, 200_000, 400_000}} {
		set := enlarge(newSet("go"), test.options)
		set.Annotations = map[string]string{annotationHeader: "99999999"}
		for range 2 { // it may be trimmed again
			trimSet(set)
			if memory := memoryOfHeader(set); !isHeader(set) || memory < test.least || memory > test.most {
				t.Errorf("%s: %d bytes, want %d to %d", name, memory, test.least, test.most)
			}
		}
	}
}

// A header has no finalizers of users, which may be large together.
func TestHeaderHasOnlyOurFinalizer(t *testing.T) {
	for _, ours := range []bool{true, false} {
		set, want := newSet("go"), []string(nil)
		for i := range 2000 {
			set.Finalizers = append(set.Finalizers, fmt.Sprint("example.com/finalizer-", i))
		}
		if ours {
			want = []string{Finalizer}
			set.Finalizers = append(set.Finalizers, Finalizer)
		}
		if trimSet(set); !isHeader(set) || !slices.Equal(set.Finalizers, want) {
			t.Errorf("a header with %d finalizers, want %q", len(set.Finalizers), want)
		}
	}
}

// A large ActionSet that has ended is read by the next process, because it may have to be cleaned up, and later not any more.
func TestLongEndedSetsAreNotRead(t *testing.T) {
	inBubble(t, enlarge(newSet("go"), smallObject), threePhases(), func(t *testing.T, a *apiServer) {
		a.startProcess()
		if got := a.states(); got != allComplete {
			t.Fatalf("the states are %s", got)
		}
		for _, after := range []time.Duration{time.Minute, cleanUpPeriod} {
			a.stopProcess()
			time.Sleep(after)
			a.takeRequests()
			a.startProcess()
			if read := slices.Contains(a.takeRequests(), "get actionsets"); read != (after < cleanUpPeriod) {
				t.Errorf("%s after its end: it is read %t", after, read)
			}
		}
	})
}

// Large ActionSets that run are read in pauses that keep all of them together from taking a CPU. Their ends, and being cancelled, do not wait for a pause.
func TestLargeSetsThatWait(t *testing.T) {
	const many = 20
	wait := waitFor("c")
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{wait}}})
	inBubble(t, enlarge(newSet("go"), smallObject), blueprint, func(t *testing.T, a *apiServer) {
		configMaps := a.createConfigMap("c", "no")
		for i := range many {
			another := enlarge(newSet("go"), smallObject)
			another.Name, another.UID = fmt.Sprint("another-", i), ""
			a.create(another)
		}
		var reading, most atomic.Int32
		a.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/ns/actionsets/") {
					defer reading.Add(-1)
					most.Store(max(most.Load(), reading.Add(1)))
					time.Sleep(20 * time.Millisecond)
				}
				return next.RoundTrip(r)
			})
		}
		lead := a.startStandby()
		lead(16)
		a.wait(5 * time.Minute)
		if got := most.Load(); int(got) != maxLargeSyncsOfNamespace {
			t.Errorf("%d are read at a time, want %d", got, maxLargeSyncsOfNamespace)
		}
		a.takeRequests()
		a.wait(10 * time.Minute)
		reads := 0
		for _, request := range a.takeRequests() {
			if request == "get actionsets" {
				reads++
			}
		}
		// All together take a tenth of a CPU, if a read takes that long; without pauses there are thousands.
		if most := int(10 * time.Minute / readPause / (20 * time.Millisecond)); reads < many || reads > most {
			t.Errorf("%d reads in ten minutes, want %d at most", reads, most)
		}
		a.edit(func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true })
		a.wait(10 * time.Second)
		if got := a.states(); !strings.HasSuffix(got, "ended") {
			t.Errorf("10 s after it was cancelled: %s", got)
		}
		configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
		a.wait(5 * time.Minute)
		for _, set := range a.sets.List() {
			if !hasFinished(set.Status) {
				t.Errorf("%s has not ended", set.Name)
			}
		}
		if k := &a.controller.keptRuns; k.total != 0 || len(k.read) != 0 {
			t.Errorf("after the end %d bytes are kept, %d runs are read", k.total, len(k.read))
		}
	})
}

// Large ActionSets that cannot be started for now are retried with a growing delay, although each of them has to wait for a turn before it is read again.
func TestLargeSetsThatFail(t *testing.T) {
	const many, during = 40, 30 * time.Second
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		for i := range many {
			set := enlarge(newSet("go"), smallObject)
			set.Name, set.UID = fmt.Sprint("large-", i), ""
			a.create(set)
		}
		a.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/ns/actionsets/") {
					time.Sleep(20 * time.Millisecond)
				}
				return next.RoundTrip(r)
			})
		}
		read := 0
		a.refuse = func(request string) error {
			if request == "get namespaces" {
				read++
				return outage(request)
			}
			return nil
		}
		a.startStandby()(16)
		a.wait(during)
		// The delay after an outage grows to 5 s, with ten tries.
		if most := many * int(during/(5*time.Second)+10); read < many || read > most {
			t.Errorf("%d tries of %d ActionSets in %v, want %d at most", read, many, during, most)
		}
		a.takeRequests()
		a.answerAll()
		a.waitHour()
		for _, set := range a.sets.List() {
			if !hasFinished(set.Status) {
				t.Errorf("%s has not ended", set.Name)
			}
		}
	})
}

// The cache marks large Blueprints, so that each is read with a turn, and only then.
func TestLargeBlueprintsAreReadWithTurn(t *testing.T) {
	for name, test := range map[string]struct {
		args        string
		annotations map[string]string
		reads       int // without a turn
	}{
		"small":                      {`{"spec":"x"}`, nil, 1},
		"large":                      {`{"spec":"` + strings.Repeat("x", smallObject) + `"}`, nil, 0},
		"large in memory":            {`{"spec":[` + strings.Repeat(`{"":0},`, smallObject/2/7) + `0]}`, nil, 0},
		"small, with our annotation": {`{"spec":"x"}`, map[string]string{annotationHeader: "-1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			unused := configMapPhase("unused")
			unused.Args = rawArgs(test.args)
			blueprint := threePhases()
			blueprint.Annotations = test.annotations
			blueprint.Actions["unused"] = v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{unused}}
			inBubble(t, newSet("go"), blueprint, func(t *testing.T, a *apiServer) {
				lead := a.startStandby()
				for i := range maxLargeSyncsOfNamespace {
					a.controller.largeSyncs.take(cache.NewObjectName("ns", fmt.Sprint("other-", i)), inOrder)
				}
				reads := func() (n int) {
					for _, request := range a.takeRequests() {
						if request == "get blueprints" {
							n++
						}
					}
					return n
				}
				lead(16)
				a.wait(10 * time.Minute)
				if n := reads(); n != test.reads {
					t.Errorf("without a turn, it is read %d times, want %d", n, test.reads)
				}
				a.controller.largeSyncs.end(cache.NewObjectName("ns", "other-0"))
				a.waitHour()
				if n := reads(); n != 1-test.reads || a.states() != allComplete {
					t.Errorf("with a turn, it is read %d times: %s", n, a.states())
				}
				// What the cache holds may be trimmed again.
				cached, err := a.controller.blueprints.Blueprints("ns").Get(blueprint.Name)
				a.must(err)
				again := cached.DeepCopy()
				if trimBlueprint(again); isHeader(again) != isHeader(cached) {
					t.Errorf("trimmed twice: %v, before %v", again.Annotations, cached.Annotations)
				}
			})
		})
	}
}

// Starts that wait for large Blueprints to be decoded leave a worker to others, and go on.
func TestLargeBlueprintsLeaveWorkers(t *testing.T) {
	const many = 10
	large := configMapPhase("unused")
	large.Args = rawArgs(`{"operation":"create","spec":"` + strings.Repeat("x", smallObject) + `"}`)
	blueprint := threePhases()
	blueprint.Name = "large"
	blueprint.Actions["unused"] = v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{large}}
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		a.blueprints.Create(blueprint)
		for i := range many {
			set := newSet("go")
			set.Name, set.UID, set.Spec.Actions[0].Blueprint = fmt.Sprint("large-", i), "", "large"
			set.Spec.Actions[0].Object = v1alpha1.ObjectReference{Kind: "Namespace", Name: "ns"}
			a.create(set)
		}
		lead := a.startStandby()
		release, err := a.controller.decoding.Acquire(t.Context(), "ns")
		a.must(err)
		lead(maxLargeSyncsOfNamespace + 1)
		a.create(newSet("go"))
		a.wait(time.Minute)
		if got := a.states(); got != allComplete {
			t.Errorf("while none is decoded: %s", got)
		}
		release()
		a.waitHour()
		for _, set := range a.sets.List() {
			if !hasFinished(set.Status) {
				t.Errorf("%s has not ended", set.Name)
			}
		}
		if turns := a.controller.largeSyncs; turns.together != 0 || len(turns.waiting)+turns.given.Len() != 0 {
			t.Errorf("at the end: %d turns, %d waiting, %d given", turns.together, len(turns.waiting), turns.given.Len())
		}
	})
}

// Of large ActionSets that wait for a turn, one that is cancelled or deleted is read next, and one that becomes small needs none and gives up its place.
func TestLargeSetsThatAwaitTurns(t *testing.T) {
	const many = 10
	for what, test := range map[string]struct {
		change func(*v1alpha1.ActionSet)
		urgent bool // it is read before those that have waited longer
	}{
		"cancelled": {urgent: true, change: func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true }},
		"deleted": {urgent: true, change: func(set *v1alpha1.ActionSet) {
			now := metav1.Now()
			set.DeletionTimestamp = &now
		}},
		"small": {change: func(set *v1alpha1.ActionSet) { enlarge(set, 0) }},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
				for i := range many {
					set := enlarge(newSet("go"), smallObject)
					set.Name, set.UID, set.Finalizers = fmt.Sprint("large-", i), "", []string{Finalizer}
					a.create(set)
				}
				goOn := make(chan struct{})
				allGoOn := sync.OnceFunc(func() { close(goOn) })
				defer allGoOn()
				var mu sync.Mutex
				var read []string
				a.wrap = func(next http.RoundTripper) http.RoundTripper {
					return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						if _, of, ok := strings.Cut(r.URL.Path, "/namespaces/ns/actionsets/"); ok && r.Method == http.MethodGet {
							mu.Lock()
							read = append(read, of)
							mu.Unlock()
							<-goOn
						}
						return next.RoundTrip(r)
					})
				}
				lead := a.startStandby()
				lead(many)
				waiting := slices.Clone(a.controller.largeSyncs.waiting)
				if len(waiting) != many-maxLargeSyncsOfNamespace {
					t.Fatalf("%v wait", waiting)
				}
				last := waiting[len(waiting)-1]
				a.sets.Update("ns", last.Name, test.change)
				synctest.Wait()
				goOn <- struct{}{}
				a.wait(time.Second)
				mu.Lock()
				reads := slices.Clone(read)
				mu.Unlock()
				if len(reads) != maxLargeSyncsOfNamespace+1 || (reads[maxLargeSyncsOfNamespace] == last.Name) != test.urgent {
					t.Errorf("%v wait, and the last one is %s: %v were read", waiting, what, reads)
				}
				allGoOn()
				a.waitHour()
				for _, set := range a.sets.List() {
					if !hasFinished(set.Status) {
						t.Errorf("%s has not ended", set.Name)
					}
				}
				if turns := a.controller.largeSyncs; turns.together != 0 || len(turns.waiting)+turns.given.Len() != 0 {
					t.Errorf("at the end: %d turns, %d waiting, %d given", turns.together, len(turns.waiting), turns.given.Len())
				}
			})
		})
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
