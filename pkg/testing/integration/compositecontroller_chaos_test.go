// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/testing/patience"
)

const (
	chaosParents = 120
	// chaosRelated is the number of related objects, and chaosGroups that of their groups: a parent depends on one object, or on one group.
	chaosRelated, chaosGroups = 40, 20
	// chaosPhase is how long the hook stays in a mood. The engine is killed once meanwhile.
	chaosPhase = 5 * time.Second
	// chaosCalls is how often the hook is called in each mood, at least.
	chaosCalls = 20
	// chaosPause is the time between two operations of users.
	chaosPause = 10 * time.Millisecond
)

// Users change parents, children and related objects, the hook misbehaves, what the engine needs goes away for a while, and the engine is killed. In the
// end all is as the users want it. The parents are targets of a DecoratorController, too, which has the same hook.
func TestCompositeChaos(t *testing.T) {
	t.Parallel()
	first, _ := firstSeed(t)
	seed := uint64(first)
	t.Logf("%s=%d repeats the operations", seedVariable, seed)
	e := newEngineEnv(t)
	hook := startChaosHook(t, seed, partsOf(e).GroupVersion().String())
	w := &chaosWorld{
		engineEnv: e, random: rand.New(rand.NewPCG(seed, 0)), hook: hook, part: "Part." + hook.parts,
		parents: map[string]*chaosSpec{}, related: map[string]chaosObject{}, wanted: map[string]int{}, done: map[string]int{},
	}
	w.serve()
	w.history = recordChaos(e, w.part)
	for i := range chaosRelated {
		w.changeRelated(fmt.Sprintf("r%02d", i))
	}
	for i := range chaosParents {
		w.create(fmt.Sprintf("p%03d", i))
	}
	engine := w.startEngine()
	for _, phase := range []struct {
		mood mood
		trouble
	}{
		{flaky, w.takeRight}, {slow, w.makeInvalid}, {gone, w.unserve}, {wrong, w.makeInvalid}, {well, w.makeNamespaceAgain},
		{flaky, func() func() {
			give, serve := w.takeRight(), w.unserve()
			return func() { give(); serve() }
		}},
	} {
		mood := phase.mood
		hook.setMood(mood)
		restart := func() {
			_ = engine.Process.Kill()
			<-engine.ended
			w.churn(chaosPhase / 10)
			engine = w.startEngine()
		}
		before := w.random.IntN(2) == 0
		w.churn(chaosPhase / 4)
		if before {
			restart()
		}
		mend := phase.trouble()
		w.churn(chaosPhase / 4)
		if !before {
			restart()
		}
		w.churn(chaosPhase / 4)
		mend()
		w.churn(chaosPhase / 4)
		for begin := time.Now(); mood != gone && hook.callsIn()[mood] < chaosCalls && time.Since(begin) < patience.Limit; {
			w.churn(chaosPhase / 10) // the machine is slow
		}
	}
	hook.setMood(well)
	begin := time.Now()
	e.eventually(w.deviation)
	t.Logf("converged %s after the hook was well again", time.Since(begin).Round(time.Millisecond))

	for name := range w.parents {
		w.delete(name)
	}
	e.eventually(w.deviation)
	for _, kind := range []string{composite, decorator} {
		e.remove(kind, e.name)
		e.awaitGone(kind, e.name)
	}
	e.eventually(func() string {
		if gone := w.history.countGone(); gone < w.done["create a parent"] {
			return fmt.Sprintf("deleted parents in the history: got %d, want %d", gone, w.done["create a parent"])
		}
		return ""
	})
	for _, problem := range w.history.verify(hook, w.wanted) {
		t.Error(problem)
	}
	t.Logf("operations of users: %v; calls of the hook: %v", w.done, hook.callsIn())
	if hook.customized() < 100 {
		t.Errorf("the customize hook was called %d times: nothing is tested", hook.customized())
	}
	for _, mood := range []mood{well, slow, flaky, wrong} {
		if hook.callsIn()[mood] < chaosCalls {
			t.Errorf("the hook was called less than %d times while it was %s: nothing is tested", chaosCalls, mood)
		}
	}
	if log := engine.log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		t.Error("the log of the engine has a data race or a panic")
	}
}

// chaosWorld keeps what users want, and changes it at random.
type chaosWorld struct {
	*engineEnv
	random  *rand.Rand
	hook    *chaosHook
	history *chaosHistory
	// part is the kind of attachments.
	part string
	// away is true while the namespace is being deleted: users cannot work in it.
	away    bool
	parents map[string]*chaosSpec
	related map[string]chaosObject
	// wanted is how often there was a reason to create a child of each name.
	wanted map[string]int
	// done counts the operations of users.
	done map[string]int
}

// startEngine starts an engine as a process.
func (w *chaosWorld) startEngine() *process {
	return startProcess(w.T, "--kubeconfig", engine.account(w.T, w.cluster).WriteKubeconfig(w.T), "--controllers", "compositecontroller,decoratorcontroller",
		"--namespace", w.namespace, "--target-label-selector", engineTest+"="+w.servedBy, "--leader-elect=false", "--serving-address", "")
}

// churn does random operations of users for this long, unless the namespace is away.
func (w *chaosWorld) churn(howLong time.Duration) {
	w.Helper()
	for begin := time.Now(); time.Since(begin) < howLong; time.Sleep(chaosPause) {
		if w.away {
			continue
		}
		if w.random.IntN(8) == 0 {
			w.changeRelated(fmt.Sprintf("r%02d", w.random.IntN(chaosRelated)))
			continue
		}
		name := fmt.Sprintf("p%03d", w.random.IntN(chaosParents))
		if w.parents[name] == nil {
			w.create(name)
			continue
		}
		switch w.random.IntN(5) {
		case 0:
			w.delete(name)
		case 1:
			w.deleteChild(name)
		default:
			w.edit(name)
		}
	}
}

// draw returns a random spec of a parent.
func (w *chaosWorld) draw() chaosSpec {
	spec := chaosSpec{Count: w.random.Int64N(4), Value: fmt.Sprintf("v%d", w.random.IntN(100))}
	if w.random.IntN(5) == 0 {
		spec.Group = fmt.Sprintf("g%02d", w.random.IntN(chaosGroups))
	} else {
		spec.Related = fmt.Sprintf("r%02d", w.random.IntN(chaosRelated))
	}
	return spec
}

// want records the new spec of a parent.
func (w *chaosWorld) want(name string, now chaosSpec) {
	before := int64(0)
	if spec := w.parents[name]; spec != nil {
		before = spec.Count
	} else {
		w.wanted[name]++ // the attachment
	}
	for i := before; i < now.Count; i++ {
		w.wanted[chaosChild(name, i)]++
	}
	w.parents[name] = &now
}

// create creates a parent, unless the last one of the name is still being finalized.
func (w *chaosWorld) create(name string) {
	w.Helper()
	spec := w.draw()
	parent := object(w, "{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: %s, labels: {%s: %s}}, spec: %s}", name, testLabel, w.namespace, spec)
	_, err := w.at(widget).Create(w.Context(), parent, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		w.Fatal(err)
	}
	w.done["create a parent"]++
	w.want(name, spec)
}

func (w *chaosWorld) edit(name string) {
	w.Helper()
	spec := w.draw()
	w.change(widget, name, fmt.Sprintf("{spec: %s}", spec))
	w.done["edit a parent"]++
	w.want(name, spec)
}

func (w *chaosWorld) delete(name string) {
	w.Helper()
	w.remove(widget, name)
	w.done["delete a parent"]++
	delete(w.parents, name)
}

// deleteChild deletes a child or the attachment. If there is one it is created again.
func (w *chaosWorld) deleteChild(parent string) {
	w.Helper()
	kind, name := "ConfigMap", chaosChild(parent, 0)
	if w.random.IntN(3) == 0 {
		kind, name = w.part, parent
	}
	w.done["delete a child"]++
	w.wanted[name]++
	w.remove(kind, name)
}

// deviation returns how parents, children and attachments differ from what users want. It is empty if all is as they want it.
func (w *chaosWorld) deviation() string {
	var want, got []string
	for name, spec := range w.parents {
		value := w.valueFor(spec)
		for i := range spec.Count {
			want = append(want, fmt.Sprintf("ConfigMap %s has %s, owned by %s", chaosChild(name, i), value, name))
		}
		want = append(want, fmt.Sprintf("Part %[1]s has %[2]s, owned by %[1]s", name, value), fmt.Sprintf("%s has %d children and the label %s", name, spec.Count, value))
	}
	parents, err := w.at(widget).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	uids := map[string]string{}
	for _, parent := range parents.Items {
		observed, _, _ := unstructured.NestedInt64(parent.Object, "status", "observed")
		generation, _, _ := unstructured.NestedInt64(parent.Object, "status", "observedGeneration")
		line := fmt.Sprintf("%s has %d children and the label %s", parent.GetName(), observed, parent.GetLabels()[chaosLabel])
		if generation != parent.GetGeneration() || len(parent.GetFinalizers()) != 2 || parent.GetDeletionTimestamp() != nil {
			line += " and is not up to date"
		}
		uids[string(parent.GetUID())] = parent.GetName()
		got = append(got, line)
	}
	for kind, fields := range map[string][]string{"ConfigMap": {"data", "value"}, w.part: {"spec", "value"}} {
		children, err := w.at(kind).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range children.Items {
			child := &children.Items[i]
			if !isChaosChild(child) {
				continue
			}
			owner := "no parent"
			if controller := metav1.GetControllerOf(child); controller != nil {
				owner = uids[string(controller.UID)]
			}
			value, _, _ := unstructured.NestedString(child.Object, fields...)
			got = append(got, fmt.Sprintf("%s %s has %s, owned by %s", child.GetKind(), child.GetName(), value, owner))
		}
	}
	return difference(want, got)
}

// difference returns the first lines that are in only one of the lists.
func difference(want, got []string) string {
	var lines []string
	for _, line := range want {
		if !slices.Contains(got, line) {
			lines = append(lines, "missing: "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			lines = append(lines, "unexpected: "+line)
		}
	}
	if len(lines) > 10 {
		lines = append(lines[:10], fmt.Sprintf("and %d more", len(lines)-10))
	}
	return strings.Join(lines, "\n")
}
