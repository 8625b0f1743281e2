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
)

const (
	chaosParents = 200
	// chaosPhase is how long the hook stays in a mood. The engine is killed in the middle.
	chaosPhase = 5 * time.Second
	// chaosPause is the time between two operations of users.
	chaosPause = 10 * time.Millisecond
)

// Users change parents and children, the hook misbehaves and the engine is killed. In the end all is as the users want it.
func TestCompositeChaos(t *testing.T) {
	first, _ := firstSeed(t)
	seed := uint64(first)
	t.Logf("%s=%d repeats the operations", seedVariable, seed)
	e := newEngineEnv(t)
	hook := startChaosHook(t, seed)
	w := &chaosWorld{
		engineEnv: e, random: rand.New(rand.NewPCG(seed, 0)), hook: hook, history: recordChaos(e),
		parents: map[string]*chaosSpec{}, wanted: map[string]int{}, done: map[string]int{},
	}
	cc := e.composite(e.name, fmt.Sprintf(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: "http://%[1]s/sync", timeout: 2s}}, finalize: {webhook: {url: "http://%[1]s/finalize", timeout: 2s}}}
`, hook.address))
	if _, err := e.at(composite).Create(e.Context(), cc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range chaosParents {
		w.create(fmt.Sprintf("p%03d", i))
	}
	engine := w.startEngine()
	for _, mood := range []mood{flaky, slow, gone, wrong, flaky} {
		hook.setMood(mood)
		w.churn(chaosPhase / 2)
		_ = engine.Process.Kill()
		<-engine.ended
		w.churn(chaosPhase / 10)
		engine = w.startEngine()
		w.churn(chaosPhase / 2)
	}
	hook.setMood(well)
	begin := time.Now()
	e.eventually(w.deviation)
	t.Logf("converged %s after the hook was well again", time.Since(begin).Round(time.Millisecond))

	for name := range w.parents {
		w.delete(name)
	}
	e.eventually(w.deviation)
	e.remove(composite, e.name)
	e.awaitGone(composite, e.name)
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
	for _, mood := range []mood{well, slow, flaky, wrong} {
		if hook.callsIn()[mood] < 20 {
			t.Errorf("the hook was called less than 20 times while it was %s: nothing is tested", mood)
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
	parents map[string]*chaosSpec
	// wanted is how often there was a reason to create a child of each name.
	wanted map[string]int
	// done counts the operations of users.
	done map[string]int
}

// startEngine starts an engine as a process.
func (w *chaosWorld) startEngine() *process {
	return startProcess(w.T, "--kubeconfig", engine.account(w.T, w.cluster).WriteKubeconfig(w.T), "--controllers", "compositecontroller",
		"--namespace", w.namespace, "--target-label-selector", engineTest+"="+w.servedBy, "--leader-elect=false", "--serving-address", "")
}

// churn does random operations of users for this long.
func (w *chaosWorld) churn(howLong time.Duration) {
	w.Helper()
	for begin := time.Now(); time.Since(begin) < howLong; time.Sleep(chaosPause) {
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
	return chaosSpec{Count: w.random.Int64N(4), Value: fmt.Sprintf("v%d", w.random.IntN(100))}
}

// want records the new spec of a parent.
func (w *chaosWorld) want(name string, now chaosSpec) {
	before := int64(0)
	if spec := w.parents[name]; spec != nil {
		before = spec.Count
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
	parent := object(w, "{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: %s, labels: {%s: %s}}, spec: {count: %d, value: %s}}",
		name, testLabel, w.namespace, spec.Count, spec.Value)
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
	w.change(widget, name, fmt.Sprintf("{spec: {count: %d, value: %s}}", spec.Count, spec.Value))
	w.done["edit a parent"]++
	w.want(name, spec)
}

func (w *chaosWorld) delete(name string) {
	w.Helper()
	w.remove(widget, name)
	w.done["delete a parent"]++
	delete(w.parents, name)
}

func (w *chaosWorld) deleteChild(parent string) {
	w.Helper()
	child := chaosChild(parent, 0)
	w.done["delete a child"]++
	w.wanted[child]++ // if the child exists it is created again
	w.remove("ConfigMap", child)
}

// deviation returns how parents and children differ from what users want. It is empty if all is as they want it.
func (w *chaosWorld) deviation() string {
	parents, err := w.at(widget).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	children, err := w.at("ConfigMap").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var want, got []string
	for name, spec := range w.parents {
		for i := range spec.Count {
			want = append(want, fmt.Sprintf("%s has %s, owned by %s", chaosChild(name, i), spec.Value, name))
		}
		want = append(want, fmt.Sprintf("%s has %d children", name, spec.Count))
	}
	uids := map[string]string{}
	for _, parent := range parents.Items {
		observed, _, _ := unstructured.NestedInt64(parent.Object, "status", "observed")
		generation, _, _ := unstructured.NestedInt64(parent.Object, "status", "observedGeneration")
		line := fmt.Sprintf("%s has %d children", parent.GetName(), observed)
		if generation != parent.GetGeneration() || len(parent.GetFinalizers()) != 1 || parent.GetDeletionTimestamp() != nil {
			line += " and is not up to date"
		}
		uids[string(parent.GetUID())] = parent.GetName()
		got = append(got, line)
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
		value, _, _ := unstructured.NestedString(child.Object, "data", "value")
		got = append(got, fmt.Sprintf("%s has %s, owned by %s", child.GetName(), value, owner))
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
