// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// names returns the names of the objects that hooks were called for, sorted.
func (e decoratorEnv) names() (names []string) {
	for _, call := range e.hook.Calls() {
		names = append(names, call.name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// awaitNames waits until the hook was called for exactly these objects, and for no others afterwards.
func (e decoratorEnv) awaitNames(want ...string) {
	e.Helper()
	e.eventually(func() string {
		if got := e.names(); len(got) < len(want) {
			return fmt.Sprintf("hooks were called for %v, want %v", got, want)
		}
		return ""
	})
	e.calm()
	if got := e.names(); !slices.Equal(got, want) {
		e.Fatalf("hooks were called for %v, want %v", got, want)
	}
}

func TestDecoratorSelectors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules string // TEST stands for the label of the test
		want  []string
	}{
		"annotations": {"[{RULE, annotationSelector: {matchAnnotations: {note: a}}}]", []string{"a-note", "gold-note"}},
		"annotation expressions": {"[{RULE, annotationSelector: {matchExpressions: [{key: note, operator: Exists}, {key: note, operator: NotIn, values: [a]}]}}]",
			[]string{"b-note"}},
		"both must match": {"[{RULE, labelSelector: {matchLabels: {TEST, tier: gold}}, annotationSelector: {matchAnnotations: {note: a}}}]", []string{"gold-note"}},
		"two rules for one type": {"[{RULE, labelSelector: {matchLabels: {TEST, tier: gold}}}, {RULE, annotationSelector: {matchAnnotations: {note: b}}}]",
			[]string{"b-note", "gold", "gold-note"}},
		"two rules that overlap": {"[{RULE, labelSelector: {matchLabels: {TEST, tier: gold}}}, {RULE}]", []string{"a-note", "b-note", "gold", "gold-note", "plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := decorating(t)
			e.parent("plain")
			e.parent("gold", "{metadata: {labels: {tier: gold}}}")
			e.parent("gold-note", "{metadata: {labels: {tier: gold}, annotations: {note: a}}}")
			e.parent("a-note", "{metadata: {annotations: {note: a}}}")
			e.parent("b-note", "{metadata: {annotations: {note: b}}}")
			rules := strings.NewReplacer("RULE", "apiVersion: test.example.com/v1, resource: widgets", "TEST", testLabel+": "+e.namespace).Replace(test.rules)
			e.decorates("resources: " + rules + "\nhooks: {sync: {webhook: {url: HOOK/sync}}}\n")
			e.awaitNames(test.want...)
		})
	}
}

func TestDecoratorSeveralResources(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		return tree{"labels": tree{"kind": fmt.Sprint(call.Object["kind"])}, "attachments": list{configMap(strings.ToLower(fmt.Sprint(call.Object["kind"])), nil)}}
	})
	e.decorates(strings.Replace(widgets, "resources: [", "resources: [{apiVersion: v1, resource: services}, ", 1))
	e.parent("web")
	// Two targets with the same name and of different kinds.
	service := e.put("{apiVersion: v1, kind: Service, metadata: {name: web, labels: {%s: %s}}, spec: {ports: [{port: 80}]}}", testLabel, e.namespace)
	e.awaitChild(widget, "web", has("Widget", "metadata", "labels", "kind"))
	e.awaitChild("Service", "web", has("Service", "metadata", "labels", "kind"))
	e.awaitChild("ConfigMap", "widget", attachedTo(e.look(widget, "web"), e.name))
	e.awaitChild("ConfigMap", "service", attachedTo(service, e.name))
	e.remove(widget, "web")
	e.awaitGone("ConfigMap", "widget")
	if e.look("ConfigMap", "service") == nil {
		t.Error("the attachment of the other target is gone")
	}
}

// Without a finalize hook, a target that opts out keeps what it has, and no hook is called for it.
func TestDecoratorOptOutWithoutFinalize(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneAttachment(call).(tree)
		answer["labels"] = tree{"decorated": "yes"}
		return answer
	})
	e.decorates(strings.Replace(widgets, "resource: widgets", "resource: widgets, annotationSelector: {matchExpressions: [{key: decorate, operator: Exists}]}", 1))
	target := e.parent("web", "{metadata: {annotations: {decorate: ''}}, spec: {who: me}}")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
	e.awaitShown("web")
	e.change(widget, "web", "{metadata: {annotations: {decorate: null}}}")
	calls := e.calm()
	e.change(widget, "web", "{spec: {who: you}, metadata: {labels: {decorated: null}}}")
	e.remove("ConfigMap", "web")
	e.stays(500*time.Millisecond, func() string {
		if len(e.hook.Calls()) > calls || e.look("ConfigMap", "web") != nil {
			return "a target that has opted out was synced"
		}
		return ""
	})
	e.change(widget, "web", "{metadata: {annotations: {decorate: again}}}")
	e.awaitChild("ConfigMap", "web", has("you", "data", "who"), attachedTo(target, e.name))
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
}

func TestDecoratorIgnoreStatusChanges(t *testing.T) {
	t.Parallel()
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprint(ignore), func(t *testing.T) {
			e := decorating(t)
			e.decorates(strings.Replace(widgets, "resource: widgets", fmt.Sprintf("resource: widgets, ignoreStatusChanges: %t", ignore), 1))
			e.parent("web")
			e.awaitCalls(1)
			e.calm()
			shows := func(fields ...string) func(*hookCall) bool {
				return func(call *hookCall) bool {
					value, _, _ := unstructured.NestedFieldNoCopy(call.Object, fields...)
					return call.name() == "web" && value == "theirs"
				}
			}
			e.change(widget, "web", "{status: {a: theirs}}", "status")
			if !ignore {
				e.awaitCall(0, shows("status", "a"))
			} else {
				e.parent("later") // observed after the change, by the same watch
				e.awaitCall(0, func(call *hookCall) bool { return call.name() == "later" })
				e.calm()
				if slices.ContainsFunc(e.hook.Calls(), shows("status", "a")) {
					t.Error("the hook was called for a change of the status")
				}
			}
			e.change(widget, "web", "{spec: {a: theirs}}")
			e.awaitCall(0, shows("spec", "a"))
			e.change(widget, "web", "{metadata: {labels: {a: theirs}}}")
			e.awaitCall(0, shows("metadata", "labels", "a"))
			e.change(widget, "web", "{metadata: {annotations: {a: theirs}}}")
			e.awaitCall(0, shows("metadata", "annotations", "a"))
		})
	}
}

func TestDecoratorResync(t *testing.T) {
	t.Parallel()
	t.Run("resyncPeriodSeconds", func(t *testing.T) {
		e := decorating(t)
		e.decorates(widgets + "\nresyncPeriodSeconds: 1\n")
		e.parent("web")
		begin := len(e.awaitCalls(1)) + 1
		checkGaps(t, e.awaitCalls(begin + 4)[begin:], time.Second)
	})
	t.Run("resyncAfterSeconds", func(t *testing.T) {
		e := decorating(t)
		e.hook.Says(tree{"resyncAfterSeconds": 0.7})
		e.decorates(widgets)
		e.parent("web")
		begin := len(e.awaitCalls(1)) + 1
		checkGaps(t, e.awaitCalls(begin + 4)[begin:], 700*time.Millisecond)
	})
}
