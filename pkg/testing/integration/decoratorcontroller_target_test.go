// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/patience"
)

// What is written to a target is exactly what differs: each answer costs the requests next to it, and none the second time.
func TestDecoratorWritesOnlyDifferences(t *testing.T) {
	t.Parallel()
	e := newDecoratorEnv(t)
	var journal faultproxy.Journal
	e.run(&journal)
	e.decorates(widgets)
	e.parent("web")
	e.awaitCalls(1)
	for i, test := range []struct {
		answer                      string
		labels, annotations, status map[string]any
		requests                    map[string]int
	}{
		{`{}`, nil, nil, nil, map[string]int{}},
		{`{"labels": {"a": "1", "b": "1"}}`, map[string]any{"a": "1", "b": "1"}, nil, nil, map[string]int{"patch widgets": 1}},
		{`{"labels": {"a": "1"}}`, map[string]any{"a": "1", "b": "1"}, nil, nil, map[string]int{}},
		{`{"labels": {"a": "1", "b": null, "c": null}}`, map[string]any{"a": "1"}, nil, nil, map[string]int{"patch widgets": 1}},
		{`{"labels": {"c": null}, "annotations": {"c": null}, "status": null}`, map[string]any{"a": "1"}, nil, nil, map[string]int{}},
		{`{"annotations": {"a": "1"}, "labels": null}`, map[string]any{"a": "1"}, map[string]any{"a": "1"}, nil, map[string]int{"patch widgets": 1}},
		{`{"annotations": {"a": null}, "labels": {"a": ""}}`, map[string]any{"a": ""}, map[string]any{}, nil, map[string]int{"patch widgets": 1}},
		{`{"status": {"a": {"b": 1, "c": 1}, "d": [1]}}`, map[string]any{"a": ""}, nil, map[string]any{"a": map[string]any{"b": 1, "c": 1}, "d": []any{1}},
			map[string]int{"patch widgets/status": 1}},
		{`{}`, map[string]any{"a": ""}, nil, map[string]any{"a": map[string]any{"b": 1, "c": 1}, "d": []any{1}}, map[string]int{}},
		{`{"status": null}`, map[string]any{"a": ""}, nil, map[string]any{"a": map[string]any{"b": 1, "c": 1}, "d": []any{1}}, map[string]int{}},
		{`{"status": {"a": {"b": 2}}}`, map[string]any{"a": ""}, nil, map[string]any{"a": map[string]any{"b": 2}}, map[string]int{"patch widgets/status": 1}},
		{`{"status": {}, "labels": {"a": "2"}}`, map[string]any{"a": "2"}, nil, map[string]any{}, map[string]int{"patch widgets": 1, "patch widgets/status": 1}},
		{`{"attachments": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}`, map[string]any{"a": "2"}, nil, map[string]any{},
			map[string]int{"create configmaps": 1, "create events": 1}},
	} {
		since := len(journal.Entries())
		e.hook.Says(says(http.StatusOK, test.answer))
		e.change(widget, "web", fmt.Sprintf("{spec: {step: %d}}", i))
		e.awaitCall(0, func(call *hookCall) bool { return fmt.Sprint(call.spec("step")) == fmt.Sprint(i) })
		e.eventually(func() string {
			now := e.look(widget, "web")
			labels := now.GetLabels()
			delete(labels, testLabel)
			for _, part := range []struct{ want, got any }{
				{test.labels, labels}, {test.annotations, now.GetAnnotations()}, {test.status, now.Object["status"]},
			} {
				if want, got := inText(part.want), inText(part.got); want != got {
					return fmt.Sprintf("step %d, %s: got %s, want %s", i, test.answer, got, want)
				}
			}
			return ""
		})
		e.awaitShown("web")
		e.calm()
		t.Logf("step %d, %s", i, test.answer)
		e.awaitSent(&journal, since, test.requests)
	}
}

// inText returns a map as a text, in which an empty map and none are the same.
func inText(value any) string {
	if text := fmt.Sprint(value); text != "map[]" && text != "<nil>" {
		return text
	}
	return "nothing"
}

func TestDecoratorRequestsOfNewTarget(t *testing.T) {
	t.Parallel()
	e := newDecoratorEnv(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneAttachment(call).(tree)
		answer["labels"] = tree{"decorated": "yes"}
		return answer
	})
	var journal faultproxy.Journal
	stop := e.run(&journal)
	e.decorates(widgets)
	e.awaitDecorator(v1alpha1.ReasonServing)
	e.parent("web")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
	e.awaitShown("web")
	e.calm()
	e.awaitSent(&journal, 0, map[string]int{"patch widgets": 1, "create configmaps": 1, "create events": 1})
	// A new process finds everything as the old one has left it.
	stop()
	var second faultproxy.Journal
	calls := len(e.hook.Calls())
	e.run(&second)
	e.awaitCalls(calls + 1)
	e.calm()
	if sent := e.sentFor(&second, 0); len(sent) > 0 {
		t.Errorf("requests of a second process: got %v, want none", sent)
	}
	e.remove(decorator, e.name) // while an engine runs
	e.awaitGone(decorator, e.name)
}

// A conflict is no reason to leave the attachments as they are: it is decided again.
func TestDecoratorTargetChangesMeanwhile(t *testing.T) {
	e := decorating(t)
	changes := 0
	e.hook.Answers(func(call *hookCall) any {
		if changes < 3 { // another client writes the target while the hook is called
			changes++
			e.change(widget, "web", fmt.Sprintf("{metadata: {annotations: {theirs: '%d'}}}", changes))
		}
		answer := oneAttachment(call).(tree)
		answer["labels"], answer["status"] = tree{"decorated": "yes"}, tree{"by": "hook"}
		return answer
	})
	e.decorates(widgets)
	target := e.parent("web")
	e.awaitChild("ConfigMap", "web", attachedTo(target, e.name))
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"), has("3", "metadata", "annotations", "theirs"), has("hook", "status", "by"))
	if count := e.countEvents(target, "SyncError"); count > 0 {
		t.Errorf("got %d events SyncError, want none", count)
	}
	e.awaitDecorator(v1alpha1.ReasonServing)
}

func TestDecoratorBuiltInTargets(t *testing.T) {
	t.Parallel()
	t.Run("Pod", func(t *testing.T) {
		e := decorating(t)
		e.hook.Answers(func(call *hookCall) any { return tree{"labels": tree{"pod-name": call.name()}} })
		e.decorates(`
resources: [{apiVersion: v1, resource: pods, ignoreStatusChanges: true}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
		e.put("{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {%s: %s}}, spec: {containers: [{name: web, image: nginx}]}}", testLabel, e.namespace)
		e.awaitChild("Pod", "web", has("web", "metadata", "labels", "pod-name"), has("Running", "status", "phase"))
	})
	t.Run("ConfigMap without a status", func(t *testing.T) {
		e := decorating(t)
		e.hook.Answers(func(call *hookCall) any {
			return tree{"annotations": tree{"keys": fmt.Sprint(len(call.Object["data"].(tree)))}, "attachments": list{
				tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"name": call.name()}, "spec": tree{"ports": list{tree{"port": 80}}}},
			}}
		})
		e.decorates(`
resources: [{apiVersion: v1, resource: configmaps, ignoreStatusChanges: true}]
attachments: [{apiVersion: v1, resource: services}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
		target := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {%s: %s}}, data: {a: b}}", testLabel, e.namespace)
		e.awaitChild("ConfigMap", "web", has("1", "metadata", "annotations", "keys"))
		e.awaitChild("Service", "web", attachedTo(target, e.name))
		e.change("ConfigMap", "web", "{data: {c: d}}") // a kind without generations
		e.awaitChild("ConfigMap", "web", has("2", "metadata", "annotations", "keys"))
	})
	t.Run("Namespace", func(t *testing.T) {
		e := decorating(t)
		e.hook.Answers(func(call *hookCall) any {
			attachment := configMap("quota", nil)
			attachment["metadata"].(tree)["namespace"] = call.name()
			return tree{"attachments": list{attachment}, "labels": tree{"seen": fmt.Sprint(len(call.Attachments["ConfigMap.v1"]))}}
		})
		e.decorates(strings.Replace(widgets, "apiVersion: test.example.com/v1, resource: widgets", "apiVersion: v1, resource: namespaces", 1))
		e.change("Namespace", e.namespace, fmt.Sprintf("{metadata: {labels: {%s: %s}}}", testLabel, e.namespace))
		e.awaitChild("ConfigMap", "quota", attachedTo(e.look("Namespace", e.namespace), e.name))
		e.awaitChild("Namespace", e.namespace, has("1", "metadata", "labels", "seen"))
		e.remove("ConfigMap", "quota")
		e.awaitChild("ConfigMap", "quota")
	})
}

func TestDecoratorClusterScopedTarget(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			e := decorating(t)
			e.hook.Answers(func(call *hookCall) any {
				attachment := configMap("a", nil)
				attachment["metadata"].(tree)["namespace"] = e.namespace
				return tree{"attachments": list{attachment}}
			})
			e.decorates(strings.NewReplacer("widgets", "clusterwidgets", "sync: {", "sync: {version: "+version+", ").Replace(widgets))
			target := e.put("{apiVersion: test.example.com/v1, kind: ClusterWidget, metadata: {name: %s, labels: {%s: %s}}}", e.name, testLabel, e.namespace)
			e.cleanUp(clusterWidget, e.name)
			e.awaitChild("ConfigMap", "a", attachedTo(target, e.name))
			e.awaitCall(0, func(call *hookCall) bool { return call.Attachments["ConfigMap.v1"][e.namespace+"/a"] != nil })
		})
	}
}

// A status that another client writes again and again is not fought for without end, and neither is a label.
func TestDecoratorTargetContested(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ answer, theirs, subresource, reason string }{
		"label":  {`{"labels": {"by": "hook"}}`, "{metadata: {labels: {by: them}}}", "", "MetadataStuck"},
		"status": {`{"status": {"by": "hook"}}`, "{status: {by: them}}", "status", "StatusStuck"},
	} {
		t.Run(what, func(t *testing.T) {
			e := decorating(t)
			e.hook.Says(says(http.StatusOK, test.answer))
			e.decorates(widgets)
			target := e.parent("web")
			isOurs := func(o *unstructured.Unstructured) bool {
				by, _, _ := unstructured.NestedString(o.Object, "status", "by")
				return o.GetLabels()["by"] == "hook" || by == "hook"
			}
			var subresources []string
			if test.subresource != "" {
				subresources = []string{test.subresource}
			}
			repaired := 0
			for begin := time.Now(); repaired < 100 && e.countEvents(target, test.reason) == 0 && time.Since(begin) < patience.Limit; {
				if isOurs(e.look(widget, "web")) {
					repaired++
					e.change(widget, "web", test.theirs, subresources...)
				}
			}
			e.awaitEventOn(target, test.reason, "")
			if repaired > 20 {
				t.Errorf("got %d immediate repairs, want about ten", repaired)
			}
		})
	}
}
