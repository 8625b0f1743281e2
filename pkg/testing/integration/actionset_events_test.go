// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event has the fields of an event that users see.
type event struct{ kind, name, eventType, reason, message string }

func (e event) String() string {
	return fmt.Sprintf("%s %s: %s %q %q", e.kind, e.name, e.eventType, e.reason, e.message)
}

// eventsOn returns the events on the ActionSet and on the Blueprints, for each object in the order in which they were recorded.
func (e *actionsEnv) eventsOn(set string, blueprints ...string) (found []event) {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	// The name of an event ends with the time at which it was recorded.
	slices.SortFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(strings.Compare(a.InvolvedObject.Kind, b.InvolvedObject.Kind), strings.Compare(a.Name, b.Name))
	})
	for _, item := range list.Items {
		of := item.InvolvedObject
		about := of.Kind == "ActionSet" && of.Name == set || of.Kind == "Blueprint" && slices.Contains(blueprints, of.Name)
		if !about || item.Reason == "Added" {
			continue
		}
		found = append(found, event{of.Kind, of.Name, item.Type, item.Reason, podNames.ReplaceAllString(item.Message, "$1-x")})
		if item.Source.Component != "Kanister Controller" || item.Count != 1 || item.Namespace != e.namespace || of.Namespace != e.namespace ||
			of.APIVersion != "cr.kanister.io/v1alpha1" || of.UID == "" {
			e.Errorf("event %s: got %+v, want the source, count and references that Kanister's events have", item.Reason, item)
		}
	}
	return found
}

// expand returns the events that the short forms stand for: SA and an action, SP, EP, SD or ED and a phase, UC, F and a message (of the
// action that the last SA or A names; it is also on the Blueprint), W, a reason in quotes and a message.
func expand(set, blueprint string, short []string) (expanded []event) {
	var onBlueprint []event
	action := "go"
	for _, text := range short {
		form, rest, _ := strings.Cut(text, " ")
		normal := func(reason, message string) {
			expanded = append(expanded, event{"ActionSet", set, corev1.EventTypeNormal, reason, message})
		}
		switch form {
		case "A":
			action = rest
		case "SA":
			action = rest
			normal("Started Action", "Executing action "+rest)
		case "SP":
			normal("Started Phase", "Executing phase "+rest)
		case "EP":
			normal("Ended Phase", "Completed phase "+rest)
		case "SD":
			normal("Started deferPhase", "Executing deferPhase "+rest)
		case "ED":
			normal("Ended deferPhase", "Completed deferPhase "+rest)
		case "UC":
			normal("Update Complete", fmt.Sprintf("Updated ActionSet '%s' Status->complete", set))
		case "F":
			failed := event{"ActionSet", set, corev1.EventTypeWarning, "ActionSetFailed Action: " + action, rest}
			expanded = append(expanded, failed)
			failed.kind, failed.name = "Blueprint", blueprint
			onBlueprint = append(onBlueprint, failed)
		case "W":
			reason, message, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `" `)
			expanded = append(expanded, event{"ActionSet", set, corev1.EventTypeWarning, reason, message})
		}
	}
	return append(expanded, onBlueprint...)
}

// wantEvents waits until exactly these events are recorded on the ActionSet and on the Blueprint of the same name; see expand.
func (e *actionsEnv) wantEvents(set string, short ...string) {
	e.Helper()
	want := expand(set, set, short)
	e.eventually(func() string {
		return gocmp.Diff(eventTexts(want), eventTexts(e.eventsOn(set, set)))
	})
}

func eventTexts(events []event) []string {
	texts := []string{}
	for _, e := range events {
		texts = append(texts, e.String())
	}
	return texts
}

func TestActionSetEventsOfManyPhases(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	phases, want := "  phases:\n", []string{"SA go"}
	for i := range 200 {
		name := fmt.Sprintf("phase%d", i)
		phases += "  - " + createConfigMapPhase(name, "$ME-"+name) + "\n"
		want = append(want, "SP "+name, "EP "+name)
	}
	e.startRun("many", phases+"  deferPhase: "+createConfigMapPhase("cleanup", "$ME-cleanup")+"\n")
	e.awaitEnd("many")
	e.wantEvents("many", append(want, "SD cleanup", "ED cleanup", "UC")...)
}

func TestActionSetEventsOfManyActions(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	const count = 200
	set := e.withNumbers("many", count, 0, 0)
	var actions strings.Builder
	var want []string
	for i := range count {
		action, phase := fmt.Sprint("action", i), fmt.Sprint("phase", i)
		fmt.Fprintf(&actions, "%s: {phases: [%s]}\n", action, createConfigMapPhase(phase, phase))
		set.Spec.Actions[i].Name = action
		want = append(want, "SA "+action, "SP "+phase, "EP "+phase)
	}
	e.blueprint("small", actions.String())
	if complaint := e.createError(set); complaint != "" {
		t.Fatal(complaint)
	}
	e.awaitEnd("many")
	expected := eventTexts(expand("many", "", append(want, "UC")))
	slices.Sort(expected) // those of different actions are in no order
	e.eventually(func() string {
		return gocmp.Diff(expected, slices.Sorted(slices.Values(eventTexts(e.eventsOn("many")))))
	})
}

// blueprintEvents returns the events on the Blueprint.
func (e *actionsEnv) blueprintEvents(blueprint string) []corev1.Event {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Blueprint,involvedObject.name=" + blueprint})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

func TestActionSetBlueprintEventPerLeader(t *testing.T) {
	e := newActionsEnv(t)
	e.blueprint("before", "{}")
	awaits := func(blueprint string, count int) {
		e.eventually(func() string { return gocmp.Diff(count, len(e.blueprintEvents(blueprint))) })
	}
	for n := range 2 {
		process := e.run(nil)
		awaits("before", n+1) // before there is an ActionSet
		later := fmt.Sprint("later", n)
		e.blueprint(later, "{}")
		awaits(later, 1)
		set := fmt.Sprint("set", n)
		e.startRun(set, "  phases: ["+createConfigMapPhase("one", set)+"]\n")
		e.awaitEnd(set)
		e.wantEvents(set, "SA go", "SP one", "EP one", "UC")
		process.stop()
		for _, event := range append(e.blueprintEvents("before"), e.blueprintEvents(later)...) {
			if event.Type != "Normal" || event.Reason != "Added" || event.Message != "Added blueprint "+event.InvolvedObject.Name || event.Count != 1 {
				t.Errorf("event of a Blueprint: got %+v, want Added", event)
			}
		}
		if got := len(e.blueprintEvents("before")); got != n+1 {
			t.Errorf("after %d processes: got %d events Added, want one of each process", n+1, got)
		}
	}
}
