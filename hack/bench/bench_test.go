// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/hack/bench/traffic"
	helloappsv1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	metacontrollerv1alpha1 "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/related"
)

func TestTable(t *testing.T) {
	var r report
	start := row{Name: "cold start", Unit: times, Goal: 1.2, Most: 1.3}
	for i, value := range []float64{1.26, 1.1, 1.25} {
		r.add(start, sample{value, fmt.Sprint("note ", i)}, false)
	}
	r.add(start, sample{Value: 1}, true)
	r.add(row{Name: "  requests", Goal: 4}, sample{Value: 5}, false)
	var got bytes.Buffer
	if err := r.table(&got); err != nil {
		t.Fatal(err)
	}
	want := `row          value   goal    baseline   ratio   remarks
cold start   1.25x   1.20x   1.00x      1.25    above the goal, at most 1.30x allowed; 1.10x to 1.26x in 3 turns; note 2
  requests   5       4       0          -       MISSED
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

func TestStatistics(t *testing.T) {
	samples := []float64{4, 1, 2, 9}
	got := fmt.Sprint(median(nil), median(samples[:3]), median(samples), percentile(nil, 99), percentile(samples, 50), percentile(samples, 99))
	if got != "0 2 3 0 2 9" {
		t.Errorf("got %s", got)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"":                       scenarios[0].name,
		"--rows=machine,farm-p":  "machine farm-pods",
		"--rows=idel":            `invalid --rows "idel"`,
		"--repetitions=0":        "invalid --repetitions 0: must be at least 1",
		"now":                    `invalid argument "now"`,
		"--rows=machine --quick": "machine",
	} {
		var output bytes.Buffer
		o, err := parseOptions(strings.Fields(args), &output)
		for _, s := range o.scenarios {
			fmt.Fprint(&output, s.name, " ")
		}
		if !strings.Contains(output.String(), want) || (err == nil) == strings.Contains(want, "invalid") {
			t.Errorf("%s: got %q, error %v, want %q", args, output.String(), err, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	m, err := parseMetrics(`# TYPE workqueue_depth gauge
workqueue_depth{name="a b"} 2
workqueue_depth{name="c"} 3
process_cpu_seconds_total 12.5
process_cpu_seconds 7
`)
	if err != nil || len(m) != 2 || m[queueDepth] != 5 || m[cpuSeconds] != 12.5 {
		t.Errorf("got %v (%v)", m, err)
	}
}

func TestMostRequests(t *testing.T) {
	requests := []traffic.Request{{Object: "a", Verb: "get", Resource: "pods"}, {Object: "b", Verb: "create", Resource: "pods"}, {Verb: "list"}}
	object, kinds, mean := mostRequests(append(requests, requests[1]), 2)
	if object != "b" || listed(kinds) != "2 create pods" || mean != 1.5 {
		t.Errorf("got %s: %s, mean %v", object, listed(kinds), mean)
	}
	if posts := eventsIn(append(requests, traffic.Request{Object: "a", Verb: "create", Resource: "events"})); len(posts) != 1 || posts[0].Object != "a" {
		t.Errorf("got the events %v", posts)
	}
}

func TestObserver(t *testing.T) {
	o := (&bench{fail: func(err error) { t.Error(err) }}).newObserver()
	container := func(ready metav1.ConditionStatus, start int64) watch.Event {
		return watch.Event{Type: watch.Modified, Object: &v1alpha1.ImmortalContainer{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Status:     v1alpha1.ImmortalContainerStatus{StartTimes: start, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}},
		}}
	}
	recovered := readyInStart(2)
	for _, event := range []watch.Event{container("True", 1), container("False", 2)} {
		o.observe(recovered.kind, event, markOfContainer)
		if number, _ := o.marked(recovered); number != 0 {
			t.Errorf("recovered with %v", event.Object)
		}
	}
	o.observe(recovered.kind, container("True", 2), markOfContainer)
	first, err := o.await(t.Context(), 1, recovered)
	if err != nil {
		t.Fatal(err)
	}
	o.observe(recovered.kind, container("True", 2), markOfContainer)
	if again, err := o.await(t.Context(), 1, recovered); err != nil || again != first {
		t.Errorf("reached at %v, then at %v (%v)", first, again, err)
	}
}

// TestClosedWatch has a watch that is closed, after which another one is opened.
func TestClosedWatch(t *testing.T) {
	o := (&bench{fail: func(err error) { t.Error(err) }}).newObserver()
	watches := make(chan watch.Interface, 2)
	for _, name := range []string{"a", "b"} {
		w := watch.NewFakeWithChanSize(1, false)
		w.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if name == "a" {
			w.Stop()
		}
		watches <- w
	}
	open := func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) { return <-watches, nil }
	if err := o.follow(t.Context(), deploymentApplied.kind, metav1.ListOptions{}, open, markOfDeployment); err != nil {
		t.Fatal(err)
	}
	if _, err := o.await(t.Context(), 2, deploymentApplied); err != nil {
		t.Error(err)
	}
}

func TestMarkOfMachine(t *testing.T) {
	for name, test := range map[string]struct {
		positions string
		flip      *uselessv1alpha1.Flip
		mark      string
	}{
		"too few":   {"ddd", nil, ""},
		"one is up": {"dudd", nil, ""},
		"flipping":  {"dddd", &uselessv1alpha1.Flip{}, ""},
		"all down":  {"dddd", nil, allDown.mark},
	} {
		machine := &uselessv1alpha1.Machine{Status: uselessv1alpha1.MachineStatus{
			Replicas: int32(len(test.positions)), Positions: test.positions, Flip: test.flip,
			Conditions: []metav1.Condition{{Type: uselessv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		}}
		if _, mark := markOfMachine(watch.Event{Object: machine}); mark != test.mark {
			t.Errorf("%s: got %q", name, mark)
		}
	}
}

// waits returns whether a status that the operator wrote waits for the child.
func waits(t *testing.T, w *workload, status runtime.Object, child metav1.Object) bool {
	t.Helper()
	body, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	wait, err := w.waits.WaitBefore(traffic.Request{Verb: "update", Resource: w.resource.Resource + "/status", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return wait != nil && !wait(child)
}

func TestWaitsOfContainers(t *testing.T) {
	status := func(starts int64, ready metav1.ConditionStatus, progressing string) *v1alpha1.ImmortalContainer {
		return &v1alpha1.ImmortalContainer{Status: v1alpha1.ImmortalContainerStatus{StartTimes: starts, ObservedStart: 1, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: ready}, {Type: v1alpha1.ConditionProgressing, Reason: progressing},
		}}}
	}
	running := &corev1.Pod{}
	ready := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	deleted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	for name, test := range map[string]struct {
		status *v1alpha1.ImmortalContainer
		child  metav1.Object
		waits  bool
	}{
		"ready, running":       {status(1, "True", ""), running, true},
		"ready, ready":         {status(1, "True", ""), ready, false},
		"terminating, running": {status(1, "False", v1alpha1.ReasonWaitingForTermination), running, true},
		"terminating, deleted": {status(1, "False", v1alpha1.ReasonWaitingForTermination), deleted, false},
		"reserved, deleted":    {status(2, "False", v1alpha1.ReasonCreating), deleted, true},
		"reserved, gone":       {status(2, "False", v1alpha1.ReasonCreating), nil, false},
	} {
		if got := waits(t, &containerWorkload, test.status, test.child); got != test.waits {
			t.Errorf("%s: waits is %t", name, got)
		}
	}
}

func TestWaitsOfApps(t *testing.T) {
	status := &helloappsv1.HelloApp{Status: helloappsv1.HelloAppStatus{Replicas: 2, AvailableReplicas: 1}}
	behind := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 2}}
	ahead := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 2, AvailableReplicas: 2}}
	if waits(t, &appWorkload, &helloappsv1.HelloApp{}, nil) || !waits(t, &appWorkload, status, behind) || waits(t, &appWorkload, status, ahead) {
		t.Error("a status does not wait until the Deployment has come as far")
	}
}

func TestHook(t *testing.T) {
	var calls hookCalls
	o := (&bench{fail: func(err error) { t.Error(err) }}).newObserver()
	calls.seen.Store(o)
	call := func(path, request string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		calls.ServeHTTP(recorder, httptest.NewRequest("POST", path, strings.NewReader(request)))
		return recorder
	}
	for _, request := range []string{``, `{}`, `{"parent":1}`, `{"parent":{},"related":1}`} {
		if code := call(syncPath, request).Code; code != 400 {
			t.Errorf("%s is answered with %d", request, code)
		}
	}
	const parent = `{"metadata":{"name":"web-00001"},"spec":{"children":3,"size":9,"value":"a","resyncAfterSeconds":0.005,"shared":true,"labelled":true}}`
	rules := hook.Rules{Types: []hook.Type{{APIVersion: "v1", Kind: "ConfigMap", Namespaced: true}}, ParentNamespace: "ns", Strict: true}

	answer := call(syncPath, `{"parent":`+parent+`,"related":{"ConfigMap.v1":{"b":{},"c":{}}}}`).Body.Bytes()
	composite, err := hook.DecodeComposite(answer, rules)
	if err != nil || len(composite.Children) != 3 || composite.ResyncAfter.Milliseconds() != 5 || string(composite.Status) != `{"children":3,"value":"a"}` {
		t.Errorf("%s is read as %+v (%v)", answer, composite, err)
	}
	if number, _ := o.marked(milestone{callsKind, "2"}); number != 1 {
		t.Error("a call with two related objects was not recorded")
	}
	answer = call(syncPath, `{"object":`+parent+`,"related":{"ConfigMap.v1":{"b":{},"shared":{"data":{"value":"new"}}}}}`).Body.Bytes()
	decorator, err := hook.DecodeDecorator(answer, rules)
	if err != nil || len(decorator.Attachments) != 3 || !slices.Equal(decorator.Labels, []hook.Change{{Key: decoratedLabel, Value: "a"}}) {
		t.Errorf("%s is read as %+v (%v)", answer, decorator, err)
	}
	if number, _ := o.marked(milestone{callsKind, "new"}); number != 1 {
		t.Error("a call with the new value of the shared ConfigMap was not recorded")
	}
	answer = call(customizePath, `{"parent":`+parent+`}`).Body.Bytes()
	customized, err := hook.DecodeCustomize(answer, rules)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := related.Parse(customized.RelatedResources, related.Bounds{Version: hook.V1, Strict: true, ParentNamespace: "ns"})
	if err != nil || len(customized.RelatedResources) != 2 {
		t.Errorf("%s is read as %+v (%v)", answer, parsed, err)
	}
}

// TestDeclarations has the specs that the engine must not refuse.
func TestDeclarations(t *testing.T) {
	h := &hosting{turn: &turn{bench: &bench{hookAddress: "127.0.0.1:8080"}}, namespace: &namespace{name: "bench-0001"}, stage: map[string]string{"stage": "a"}}
	for _, d := range []declaration{composite(slow), customized(""), decorator()} {
		var declared *parent.Declaration
		switch o := d.object(h).(type) {
		case *metacontrollerv1alpha1.CompositeController:
			declared = parent.FromComposite(o)
		case *metacontrollerv1alpha1.DecoratorController:
			declared = parent.FromDecorator(o)
		}
		if problem := declared.CheckSpec(); problem != nil {
			t.Errorf("%s: %+v", d.controller, problem)
		}
	}
}

func TestMarksOfParents(t *testing.T) {
	parent := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"generation": int64(2), "labels": map[string]any{decoratedLabel: "b"}},
		"status":   map[string]any{"observedGeneration": int64(1), "value": "a"},
	}}
	if before := statusOf(parent); before != "" {
		t.Errorf("the mark of an earlier generation is %q", before)
	}
	parent.SetGeneration(1)
	if got := statusOf(parent) + labelOf(parent); got != "ab" {
		t.Errorf("the marks are %q", got)
	}
}
