// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// roundTrip is how long it takes, in these tests, until the engine observes what it has written.
const roundTrip = 20 * time.Millisecond

// tally counts what was done.
type tally struct {
	writes, warnings int
	// held reports whether something had to wait, and last is the last problem.
	delayed bool
	last    *Problem
}

// run syncs as the loop does, for a duration: after each write, and after the delay of the last plan. It calls world after each write.
func (w *world) run(howLong time.Duration, answer func() string, world func()) (t tally) {
	w.t.Helper()
	for end := w.now.Add(howLong); w.now.Before(end); {
		did := w.sync(answer())
		t.writes += len(did)
		t.warnings += len(w.last.warnings()) + len(w.last.stuck)
		t.last, t.delayed = w.last.problem, t.delayed || w.last.delayed
		switch {
		case len(did) > 0:
			w.now = w.now.Add(roundTrip)
			world()
		case w.last.requeueAfter > 0:
			w.now = w.now.Add(w.last.requeueAfter)
		default:
			return t
		}
	}
	return t
}

func nothing() {}

// counting answers with another number each time.
func counting(format string) func() string {
	i := 0
	return func() string { i++; return fmt.Sprintf(format, i) }
}

func wants(children ...string) string { return `{"children":[` + strings.Join(children, ",") + `]}` }

func configMap(name, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"a"}},"data":{"k":%q}}`, name, data)
}

// touch changes a child in a field that the hook may use and the engine does not.
func (w *world) touch(name string) {
	w.edit(name, func(tree map[string]any) { tree["status"] = map[string]any{"seen": w.version} })
}

// most writes in an hour: those that are immediate, the six pauses that grow, and one a minute, some of which are two or three.
const most = 4 * (controller.FreeRewrites + 6 + 60)

func TestNeverSettles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for name, test := range map[string]struct {
		answer func() string
		world  func(*world)
	}{
		"in the status":             {answer: counting(`{"status":{"n":%d}}`)},
		"in a child":                {answer: counting(wants(configMap("a", "%d")))},
		"in the name of a child":    {answer: counting(wants(configMap("a-%d", "")))},
		"in a child and the status": {answer: counting(`{"status":{"n":%[1]d},"children":[` + configMap("a", "%[1]d") + `]}`)},
		"but is random":             {answer: func() string { return wants(configMap("a", fmt.Sprint(random.Uint64()))) }},
		"and wants to be asked":     {answer: counting(`{"status":{"n":%d},"resyncAfterSeconds":0.001}`)},
		"with a child that settles": {answer: counting(wants(configMap("same", "1"), configMap("a", "%d")))},
		"and the child reacts":      {answer: counting(wants(configMap("a", "%d"))), world: func(w *world) { w.touch("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			got := w.run(time.Hour, test.answer, func() {
				if test.world != nil {
					test.world(w)
				}
			})
			if got.writes > most || got.writes < 60 {
				t.Errorf("%d writes in an hour, want 60 to %d", got.writes, most)
			}
			if got.warnings != 1 || got.last == nil || got.last.Reason != v1alpha1.ReasonNeverSettles {
				t.Errorf("%d warnings, and the problem is %v", got.warnings, got.last)
			}
		})
	}
}

func TestOneChildAfterTheOther(t *testing.T) {
	one := func(last int) func() string {
		n := 0
		return func() string {
			n = min(n+1, last)
			var children []string
			for i := range n {
				children = append(children, configMap(fmt.Sprint("a-", i), "1"))
			}
			return fmt.Sprintf(`{"status":{"n":%d},"children":[%s]}`, n, strings.Join(children, ","))
		}
	}
	if got := newWorld(t).run(time.Hour, one(60), nothing); got.delayed || got.warnings > 0 || got.writes != 120 {
		t.Errorf("60 children one after the other: %+v", got)
	}
	if got := newWorld(t).run(3*time.Minute, one(1<<30), nothing); !got.delayed || got.warnings != 1 || got.writes > 500 {
		t.Errorf("one more child for ever: %+v", got)
	}
}

func TestChangingChildrenAreNotDelayed(t *testing.T) {
	w, ready := newWorld(t), 0
	var pods []string
	for i := range 60 {
		pods = append(pods, configMap(fmt.Sprint("pod-", i), "1"))
	}
	answer := func() string {
		return fmt.Sprintf(`{"status":{"ready":%d},"children":[%s]}`, ready, strings.Join(pods, ","))
	}
	w.sync(answer())
	for i := range pods {
		w.now = w.now.Add(time.Millisecond)
		w.touch(fmt.Sprint("pod-", i))
		ready++
		if did := w.sync(answer()); len(did) != 1 || did[0] != "status" || w.last.problem != nil {
			t.Fatalf("when Pod %d became ready it did %v, problem %v", i, did, w.last.problem)
		}
	}
}

// slowed returns a world whose hook never settles and is throttled.
func slowed(t *testing.T, answer func() string) *world {
	t.Helper()
	w := newWorld(t)
	w.run(10*time.Minute, answer, nothing)
	for len(w.sync(answer())) > 0 {
		w.now = w.now.Add(roundTrip)
	}
	if did := w.sync(answer()); len(did) > 0 || w.last.problem == nil {
		t.Fatalf("it did %v after ten minutes, problem %v", did, w.last.problem)
	}
	return w
}

func TestThrottledHook(t *testing.T) {
	answer := counting(wants(configMap("a", "%d"), configMap("same", "1")))
	t.Run("a new spec is followed immediately", func(t *testing.T) {
		w := slowed(t, answer)
		w.parent = text(strings.Replace(string(w.parent), `"generation":3`, `"generation":4`, 1))
		if did := w.sync(answer()); len(did) == 0 || w.last.problem != nil {
			t.Errorf("it did %v, problem %v", did, w.last.problem)
		}
	})
	t.Run("a change of the world is followed within a second", func(t *testing.T) {
		w := slowed(t, answer)
		w.now = w.now.Add(time.Second)
		w.touch("same")
		if did := w.sync(answer()); len(did) == 0 {
			t.Errorf("it did nothing, and waits %s", w.last.requeueAfter)
		}
		got := w.run(10*time.Minute, answer, nothing)
		if got.writes > most/6+2*controller.FreeRewrites || got.warnings > 0 {
			t.Errorf("and then %+v in ten minutes", got)
		}
	})
	t.Run("changes of the world without end are followed once a second", func(t *testing.T) {
		w, writes := slowed(t, answer), 0
		for end := w.now.Add(time.Minute); w.now.Before(end); w.now = w.now.Add(50 * time.Millisecond) {
			w.touch("same")
			writes += len(w.sync(answer()))
		}
		if writes > 2*61 {
			t.Errorf("%d writes in a minute", writes)
		}
	})
	t.Run("an answer that leaves nothing to be done ends it", func(t *testing.T) {
		w := slowed(t, answer)
		stored := w.children[configMaps.key("ns", "a")]
		tree, err := treeOf(stored)
		if err != nil {
			t.Fatal(err)
		}
		same := wants(configMap("a", tree["data"].(map[string]any)["k"].(string)), configMap("same", "1"))
		w.want(same)
		if w.last.problem != nil {
			t.Errorf("the problem is %v", w.last.problem)
		}
		if did := w.sync(answer()); len(did) == 0 {
			t.Error("the next difference waits")
		}
	})
	t.Run("the same answer again is no other one", func(t *testing.T) {
		w := slowed(t, answer)
		last := w.history.answers.answer
		w.now = w.now.Add(time.Hour)
		body := answer()
		w.sync(body)
		if w.history.answers.answer == last {
			t.Fatal("nothing is tested")
		}
		w.edit("same", setData("theirs"))
		w.want(body, "update ConfigMap ns/same")
	})
}

// In any order of events, a hook is throttled if and only if its answers to the same request differ.
func TestThrottleEventOrders(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		w, spec, children := newWorld(t), 1, 0
		honest := func() string {
			seen := 0
			for _, child := range w.children {
				seen += len(child.GetResourceVersion()) + len(child.JSON())%7
			}
			return fmt.Sprintf(`{"status":{"spec":%d,"seen":%d},"children":[%s,%s]}`, spec, seen, configMap("a", fmt.Sprint(spec)), configMap("b", fmt.Sprint(children)))
		}
		for range 300 {
			w.now = w.now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			switch random.IntN(5) {
			case 0:
				spec++
				generation := func(n int64) string { return fmt.Sprintf(`"generation":%d`, n) }
				before := w.parent.GetGeneration()
				w.parent = text(strings.Replace(string(w.parent), generation(before), generation(before+1), 1))
			case 1:
				children++
			case 2:
				for _, name := range []string{"a", "b"} {
					if _, found := w.children[configMaps.key("ns", name)]; found {
						w.touch(name)
					}
				}
			}
			for range random.IntN(4) {
				w.sync(honest())
				if w.last.problem != nil || w.last.delayed {
					t.Fatalf("seed %d: a hook that settles is held back: %v", seed, w.last.problem)
				}
			}
		}
		hostile, writes := counting(wants(configMap("a", "%d"), configMap("b", "1"))), 0
		for end := w.now.Add(2 * time.Minute); w.now.Before(end); w.now = w.now.Add(time.Duration(random.IntN(200)) * time.Millisecond) {
			if random.IntN(3) == 0 && w.children[configMaps.key("ns", "b")] != nil {
				w.touch("b")
			}
			writes += len(w.sync(hostile()))
		}
		if writes > 2*60+6*controller.FreeRewrites { // once a second, and a few at first
			t.Fatalf("seed %d: %d writes in two minutes", seed, writes)
		}
	}
}

func TestMinResyncAfter(t *testing.T) {
	for answer, want := range map[string]time.Duration{
		`{}`:                           0,
		`{"resyncAfterSeconds":0}`:     0,
		`{"resyncAfterSeconds":0.001}`: minResyncAfter,
		`{"resyncAfterSeconds":0.7}`:   700 * time.Millisecond,
		`{"resyncAfterSeconds":60}`:    time.Minute,
	} {
		p, err := newWorld(t).decide(phaseSync, answer)
		if err != nil || p.requeueAfter != want {
			t.Errorf("%s: it is asked after %s, %v, want %s", answer, p.requeueAfter, err, want)
		}
	}
}
