// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/testing/fakeapi"
)

// maxLargeSyncsOfNamespace is how many turns a namespace has in this process, which has no memory limit.
var maxLargeSyncsOfNamespace, _ = inflight.Shared(maxLargeSyncs)

// queuedKeys are the keys that were queued for their turns.
type queuedKeys struct {
	mu   sync.Mutex
	keys []cache.ObjectName
}

func (q *queuedKeys) add(keys ...cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys = append(q.keys, keys...)
}

// take returns the keys since it was called before.
func (q *queuedKeys) take() (keys []cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys, q.keys = q.keys, nil
	return keys
}

// names returns the keys since it was called before, as texts.
func (q *queuedKeys) names() (names []string) {
	for _, key := range q.take() {
		names = append(names, key.String())
	}
	return names
}

// Turns are given in order, to the namespace that has the fewest first.
func TestTurns(t *testing.T) {
	var queued queuedKeys
	turns := newTurns(2, 3, queued.add)
	key := cache.NewObjectName
	want := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, queued.names()); diff != "" {
			t.Errorf("queued %s (-want +got):\n%s", when, diff)
		}
	}
	take := func(key cache.ObjectName, want bool) {
		t.Helper()
		if got := turns.take(key, inOrder); got != want {
			t.Errorf("%s: has a turn %t", key, got)
		}
	}
	take(key("a", "1"), true)
	take(key("a", "2"), true)
	take(key("a", "3"), false) // two of one namespace
	take(key("a", "3"), false)
	take(key("b", "1"), true)
	take(key("a", "4"), false)
	take(key("b", "2"), false) // three in all
	take(key("c", "1"), false)
	want("while all turns are taken")
	turns.end(key("a", "1"))
	want("after one has ended", "c/1")
	turns.end(key("b", "1"))
	want("after b's has ended", "b/2")
	turns.leave(key("c", "1")) // it is gone
	want("after c's was given up", "a/3")
	take(key("c", "1"), false)
	turns.leave(key("c", "1"))
	take(key("a", "3"), true)
	take(key("b", "2"), true)
	turns.end(key("b", "2"))
	want("while a has two", []string(nil)...)
	turns.end(key("a", "3"))
	want("after one of a's has ended", "a/4")
	take(key("a", "4"), true)
	take(key("a", "5"), false)
	take(key("a", "6"), false)
	take(key("a", "7"), false)
	if turns.take(key("a", "6"), goesFirst) { // cancelled meanwhile
		t.Error("a/6 has a turn")
	}
	turns.end(key("a", "2"))
	want("after another one", "a/6")
	for _, name := range []string{"5", "6", "7"} {
		turns.leave(key("a", name))
	}
	turns.end(key("a", "4"))
	queued.take()
	if turns.together != 0 || len(turns.held)+len(turns.waiting)+turns.given.Len() != 0 {
		t.Errorf("at the end: %+v", turns)
	}
}

// While what syncs with turns have taken of the API server is not paid, only keys of runs that are stopped have a turn. The others have theirs in order, the
// namespaces alternately.
func TestTurnsArePaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queued queuedKeys
		turns := newTurns(2, 3, queued.add)
		want := func(when string, after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if diff := cmp.Diff(want, queued.names()); diff != "" {
				t.Errorf("queued %s (-want +got):\n%s", when, diff)
			}
		}
		take := func(namespace, name string, u urgency, want bool) {
			t.Helper()
			if got := turns.take(cache.NewObjectName(namespace, name), u); got != want {
				t.Errorf("%s/%s: has a turn %t", namespace, name, got)
			}
		}
		end := func(namespace, name string, cpu time.Duration) {
			turns.cpu.Take(cpu)
			turns.end(cache.NewObjectName(namespace, name))
		}
		take("a", "1", inOrder, true)
		end("a", "1", time.Second)
		take("a", "1", inOrder, true) // a second may be unpaid
		end("a", "1", 500*time.Millisecond)
		for _, name := range []string{"2", "3", "4"} {
			take("a", name, inOrder, false)
		}
		take("b", "1", inOrder, false)
		take("b", "2", inOrder, false)
		take("b", "1", goesUnpaid, true) // cancelled meanwhile
		take("a", "1", goesUnpaid, true)
		take("a", "4", goesUnpaid, true)
		take("b", "2", goesUnpaid, false) // three in all
		end("a", "1", 0)
		want("when one of these has ended", 0, "b/2")
		take("b", "2", goesUnpaid, true)
		for _, key := range []string{"a4", "b1", "b2"} {
			end(key[:1], key[1:], 0)
		}
		want("before it is paid", 1900*time.Millisecond, []string(nil)...)
		take("b", "3", goesFirst, false)
		want("when it is paid", 200*time.Millisecond, "b/3", "a/2", "a/3")
		for _, key := range []string{"a2", "b3", "a3"} {
			take(key[:1], key[1:], inOrder, true)
			end(key[:1], key[1:], 0)
		}
		if turns.together != 0 || len(turns.held)+len(turns.waiting)+turns.given.Len()+turns.unpaid.Len() != 0 {
			t.Errorf("at the end: %+v", turns)
		}
	})
}

// What a sync with a turn asks of the API server is counted, whatever is large.
func TestSyncsWithTurnsAreCounted(t *testing.T) {
	flat := strings.Repeat("x", 800_000)
	dense := func(_ *apiServer, set *v1alpha1.ActionSet) {
		set.Spec.Actions[0].Artifacts = map[string]v1alpha1.Artifact{}
		for n := range 990 {
			set.Spec.Actions[0].Artifacts[fmt.Sprint("a", n)] = v1alpha1.Artifact{KeyValue: map[string]string{"": ""}}
		}
	}
	secrets := func(a *apiServer, set *v1alpha1.ActionSet) {
		set.Spec.Actions[0].Secrets = map[string]v1alpha1.ObjectReference{}
		for n := range 4 {
			secret := fmt.Sprint("large-", n)
			a.secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: secret}, Data: map[string][]byte{"a": []byte(flat)}})
			set.Spec.Actions[0].Secrets[secret] = v1alpha1.ObjectReference{Name: secret}
		}
	}
	for name, test := range map[string]struct {
		change func(*apiServer, *v1alpha1.ActionSet)
		want   time.Duration // of a CPU
	}{
		"ActionSet": {dense, 200 * time.Millisecond},
		"cancelled": {func(a *apiServer, set *v1alpha1.ActionSet) {
			dense(a, set)
			set.Spec.Cancel = true
		}, 35 * time.Millisecond},
		"Blueprint": {func(a *apiServer, set *v1alpha1.ActionSet) {
			set.Spec.Actions[0].Blueprint = a.createDense("dense", 8).Name
		}, 43 * time.Millisecond},
		"subject": {func(a *apiServer, set *v1alpha1.ActionSet) {
			set.Spec.Actions[0].Object = a.createDense("dense", 8)
		}, 69 * time.Millisecond},
		"snapshot": {func(_ *apiServer, set *v1alpha1.ActionSet) {
			set.Spec.Actions[0].Options = map[string]string{"filler": flat}
		}, 212 * time.Millisecond},
		"Secrets at the start": {secrets, 49 * time.Millisecond},
		"Secrets in a phase": {func(a *apiServer, set *v1alpha1.ActionSet) {
			secrets(a, set)
			a.blueprints.Update("ns", "bp", func(b *v1alpha1.Blueprint) {
				b.Actions["go"].Phases[0].Args = creating("one{{ range .Secrets }}{{ end }}")
			})
		}, 68 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
				set := newSet("go")
				test.change(a, set)
				a.create(set)
				lead := a.startStandby()
				turns := a.controller.largeSyncs
				turns.cpu.Take(time.Second) // what need not be paid
				lead(1)
				counted := time.Duration(float64(turns.cpu.Wait()) * maxOfTurns)
				if counted < test.want || counted > test.want*5/4 {
					t.Errorf("%s of a CPU are counted, want %s", counted, test.want)
				}
				a.waitHour()
				if status := a.set().Status; !hasFinished(status) {
					t.Errorf("it has not ended: %s", describeStatus(status))
				}
			})
		})
	}
}

// With one turn at a time, namespaces alternate. Keys that wait until earlier syncs are paid are queued then, also if no turn ends.
func TestTurnsAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queued queuedKeys
		turns := newTurns(1, 1, queued.add)
		turns.cpu.Take(2 * time.Second)
		for _, name := range []string{"a/1", "a/2", "a/3", "b/1"} {
			namespace, name, _ := strings.Cut(name, "/")
			if turns.take(cache.NewObjectName(namespace, name), inOrder) {
				t.Errorf("%s/%s has a turn before it is paid", namespace, name)
			}
		}
		stopped := cache.NewObjectName("c", "1")
		if !turns.take(stopped, goesUnpaid) || turns.take(cache.NewObjectName("a", "4"), goesFirst) {
			t.Error("one that is to be stopped has no turn, or one that has not started has one")
		}
		turns.end(stopped)
		time.Sleep(time.Second)
		synctest.Wait()
		if early := queued.names(); len(early) > 0 {
			t.Errorf("%v are queued before it is paid", early)
		}
		var order []string
		for range 5 {
			time.Sleep(4 * time.Second)
			synctest.Wait()
			for _, key := range queued.take() {
				order = append(order, key.String())
				turns.take(key, inOrder)
				turns.end(key)
			}
		}
		turns.cpu.Take(3 * time.Second)
		if turns.take(cache.NewObjectName("d", "1"), inOrder) {
			t.Error("d/1 has a turn before it is paid")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a/4", "b/1", "a/1", "a/2", "a/3", "d/1"}, append(order, queued.names()...)); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
	})
}

// Whatever keys do, the limits hold, and each key that waits is queued in the end.
func TestTurnsAreNotLost(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			queue := map[cache.ObjectName]bool{}
			var queued queuedKeys
			turns := newTurns(1+random.IntN(3), 3, queued.add)
			fill := func() {
				for _, key := range queued.take() {
					queue[key] = true
				}
			}
			todo := map[cache.ObjectName]bool{}
			for i := range 40 {
				key := cache.NewObjectName(fmt.Sprint("ns-", random.IntN(4)), fmt.Sprint(i))
				queue[key], todo[key] = true, true
			}
			running := map[cache.ObjectName]bool{}
			for len(todo) > 0 {
				if len(queue)+len(running) == 0 {
					time.Sleep(time.Hour) // until what was taken is paid
					synctest.Wait()
					fill()
				}
				if len(queue)+len(running) == 0 {
					t.Fatalf("seed %d: %d keys were never queued: %+v", seed, len(todo), turns)
				}
				for key := range running {
					if random.IntN(2) == 0 {
						turns.cpu.Take(time.Duration(random.IntN(2)) * time.Second)
						turns.end(key)
						delete(running, key)
						delete(todo, key)
					}
				}
				for key := range queue {
					delete(queue, key)
					switch {
					case running[key]: // synced again later
					case random.IntN(10) == 0:
						turns.leave(key)
						delete(todo, key)
					case turns.take(key, urgency(max(0, random.IntN(6)-3))):
						running[key] = true
					}
				}
				time.Sleep(time.Duration(random.IntN(3)) * time.Second)
				synctest.Wait()
				fill()
				of := map[string]int{}
				for key := range running {
					of[key.Namespace]++
					if of[key.Namespace] > turns.ofNamespace || len(running) > 3 {
						t.Fatalf("seed %d: %v run", seed, running)
					}
				}
			}
		})
	}
}

// Runs that read large Secrets when they start need turns, and leave workers to others meanwhile.
func TestLargeReadsNeedTurns(t *testing.T) {
	const many = 10
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		secrets := fakeapi.Of[corev1.Secret](a.Server, secretsResource)
		named := map[string]v1alpha1.ObjectReference{}
		for i := range 4 {
			name := fmt.Sprint("heavy-", i)
			named[name] = v1alpha1.ObjectReference{Name: name}
			secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"a": make([]byte, 900_000)}})
		}
		for i := range many {
			set := newSet("go")
			set.Name, set.UID, set.Spec.Actions[0].Secrets = fmt.Sprint("large-", i), "", named
			a.create(set)
		}
		var reading atomic.Int32
		a.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/secrets/heavy-2") { // 1.8 MB were read before
					reading.Add(1)
					defer reading.Add(-1)
					time.Sleep(time.Minute)
				}
				return next.RoundTrip(r)
			})
		}
		a.startStandby()(many)
		time.Sleep(time.Second)
		a.create(newSet("go"))
		a.wait(30 * time.Second)
		if got := a.states(); got != allComplete {
			t.Errorf("while large Secrets are read: %s", got)
		}
		if n := int(reading.Load()); n != maxLargeSyncsOfNamespace {
			t.Errorf("%d runs read large Secrets, want %d", n, maxLargeSyncsOfNamespace)
		}
		if status := a.sets.Get("ns", "large-9").Status; status != nil {
			t.Errorf("one that waits for a turn has a status: %+v", status)
		}
		a.waitHour()
		for _, set := range a.sets.List() {
			if !hasFinished(set.Status) {
				t.Errorf("%s has not ended: %s", set.Name, describeStatus(set.Status))
			}
		}
		if turns := a.controller.largeSyncs; turns.together != 0 || len(turns.waiting)+turns.given.Len() != 0 {
			t.Errorf("at the end: %d turns, %d waiting, %d given", turns.together, len(turns.waiting), turns.given.Len())
		}
	})
}

// The Pods of a subject count as they are read, so that not all of them are read without a turn.
func TestPodsOfSubjectCount(t *testing.T) {
	const bytes = 400_000
	owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "u1"}}
	var pods []runtime.Object
	for i := range 10 {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("db-", i), Labels: map[string]string{"app": "db"}},
			Status:     corev1.PodStatus{Message: strings.Repeat("x", bytes)},
		})
	}
	s := &syncer{Controller: &Controller{Config: Config{KubeClient: fake.NewClientset(pods...)}}}
	s.largeSyncs = newTurns(1, 1, func(...cache.ObjectName) {})
	s.largeSyncs.take(cache.NewObjectName("ns", "other"), inOrder)
	s.reads.check = s.checkReads
	_, err := s.listPods(t.Context(), owner, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}})
	if !errors.Is(err, errAwaitsTurn) || s.reads.total < smallReads || s.reads.total > smallReads+2*bytes {
		t.Errorf("%d bytes were read, then %v", s.reads.total, err)
	}
}

// Blueprints count together: a run that names several small ones needs a turn.
func TestSeveralBlueprintsNeedTurn(t *testing.T) {
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		for i, blueprints := range []int{1, 3} {
			set := newSet()
			set.Name, set.UID = fmt.Sprint("names-", blueprints), ""
			for n := range blueprints {
				called := configMapPhase(fmt.Sprint("c", i, n))
				unused := phaseOf("KubeTask", "unused")
				unused.Args = rawArgs(`{"image":"` + strings.Repeat("x", 15_000) + `"}`)
				blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
					"go": {Phases: []v1alpha1.BlueprintPhase{called}}, "unused": {Phases: []v1alpha1.BlueprintPhase{unused}},
				})
				blueprint.Name = fmt.Sprint("b", i, n)
				a.blueprints.Create(blueprint)
				action := newSet("go").Spec.Actions[0]
				action.Blueprint = blueprint.Name
				set.Spec.Actions = append(set.Spec.Actions, action)
			}
			a.create(set)
		}
		lead := a.startStandby()
		for i := range maxLargeSyncsOfNamespace {
			a.controller.largeSyncs.take(cache.NewObjectName("ns", fmt.Sprint("other-", i)), inOrder)
		}
		lead(16)
		a.wait(time.Minute)
		a.wantEnded("names-1")
		if status := a.sets.Get("ns", "names-3").Status; status != nil {
			t.Errorf("without a turn, one that names three Blueprints has a status: %s", describeStatus(status))
		}
		a.controller.largeSyncs.end(cache.NewObjectName("ns", "other-0"))
		a.wait(time.Minute)
		a.wantEnded("names-3")
	})
}

// A run whose actions or phases name many objects needs a turn to start, and each time that it is looked at: in this process, and in others that continue it.
// Without a turn nothing is read, and nothing is recorded.
func TestRunsThatReadManyNeedTurns(t *testing.T) {
	const many = fewReads + 1
	name := func(i int) string { return fmt.Sprint("secret-", i) }
	for kind, change := range map[string]func(*v1alpha1.ActionSet, *v1alpha1.Blueprint){
		"phases": func(set *v1alpha1.ActionSet, b *v1alpha1.Blueprint) {
			set.Spec.Actions[0].Secrets = referencesTo(1, func(int) string { return name(many - 1) })
			b.Actions["go"].Phases[1].Objects = referencesTo(many-1, name)
		},
		"actions": func(set *v1alpha1.ActionSet, _ *v1alpha1.Blueprint) {
			set.Spec.Actions = slices.Repeat(set.Spec.Actions, 2)
			set.Spec.Actions[0].Secrets, set.Spec.Actions[1].Secrets = referencesTo(1, func(int) string { return name(many - 1) }), referencesTo(many-1, name)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			set, blueprint := newSet("go"), threePhases()
			change(set, blueprint)
			inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
				for i := range many {
					a.secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name(i)}})
				}
				reads := func() (n int) {
					for _, request := range a.takeRequests() {
						if request == "get secrets" {
							n++
						}
					}
					return n
				}
				withoutTurn := func(when string, most int) {
					t.Helper()
					lead := a.startStandby()
					for i := range maxLargeSyncsOfNamespace {
						a.controller.largeSyncs.take(cache.NewObjectName("ns", fmt.Sprint("other-", i)), inOrder)
					}
					before := a.set().Status
					reads()
					lead(16)
					a.wait(10 * time.Minute)
					if diff := cmp.Diff(before, a.set().Status); diff != "" {
						t.Errorf("%s, without a turn (-before +after):\n%s", when, diff)
					}
					if n := reads(); n > most {
						t.Errorf("%s, without a turn, %d Secrets are read, want at most %d", when, n, most)
					}
				}
				withoutTurn("at the start", 1) // what the action names
				refused := "update actionsets/status"
				a.refuse = func(request string) error {
					if request == refused {
						return errors.New("an outage")
					}
					return nil
				}
				other := cache.NewObjectName("ns", "other-0")
				a.controller.largeSyncs.end(other)
				a.waitInOutage()
				if hasStarted(a.set().Status) || a.secret() == nil || !a.controller.largeSyncs.take(other, inOrder) {
					t.Fatalf("it does not create its snapshot with a turn: %s", describeStatus(a.set().Status))
				}
				reads()
				a.wait(10 * time.Minute)
				if n := reads(); n > 0 {
					t.Errorf("when its start is tried again, without a turn, %d Secrets are read", n)
				}
				refused = "create configmaps"
				a.controller.largeSyncs.end(other)
				a.waitInOutage()
				if !hasStarted(a.set().Status) {
					t.Fatalf("it does not start with a turn: %s", describeStatus(a.set().Status))
				}
				a.stopProcess()
				a.answerAll()
				for range 3 { // more processes than may end while they render
					withoutTurn("when it is continued", 1) // the snapshot
					if m, _ := a.controller.memories.Of(cache.NewObjectName("ns", "s"), a.set().UID); m.snapshot != nil {
						t.Error("while it waits for its turn, it keeps its snapshot")
					}
					a.stopProcess()
				}
				a.startProcess()
				a.waitHour()
				if got := a.set().Status; !hasFinished(got) {
					t.Errorf("with a turn: %s", describeStatus(got))
				}
				if turns := a.controller.largeSyncs; turns.together != 0 || len(turns.waiting)+turns.given.Len() != 0 {
					t.Errorf("at the end: %d turns, %d waiting, %d given", turns.together, len(turns.waiting), turns.given.Len())
				}
			})
		})
	}
}

// Templates are rendered at any time if all that they get is small.
func TestSmallData(t *testing.T) {
	for name, test := range map[string]struct {
		large        bool
		kept, inputs int
		want         bool
	}{
		"small":           {false, smallData / 2, smallData / 2, true},
		"large inputs":    {false, smallData / 2, smallData/2 + 1, false},
		"large snapshot":  {false, smallData + 1, 0, false},
		"large ActionSet": {true, 0, 0, false},
	} {
		s := &syncer{large: test.large, memory: &memory{snapshotBytes: test.kept}}
		if got := s.isSmall(inputs{size: test.inputs}); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
