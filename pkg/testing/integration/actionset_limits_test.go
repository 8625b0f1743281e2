// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/faultproxy"
)

// IsTooLarge recognizes the errors of etcd, of its client, and of the API server.
func TestActionSetTooLargeErrors(t *testing.T) {
	e := newActionsEnv(t)
	set := e.actionSet("large", "{name: go, blueprint: none, object: {kind: Namespace, name: $NS, namespace: $NS}}")
	for _, bytes := range []int{1600 << 10, 2200 << 10, 3200 << 10} {
		set.Status = &v1alpha1.ActionSetStatus{State: v1alpha1.StateRunning, Error: v1alpha1.Error{Message: strings.Repeat("m", bytes)}}
		_, err := e.client.CrV1alpha1().ActionSets(e.namespace).UpdateStatus(t.Context(), set, metav1.UpdateOptions{})
		if err == nil || !controller.IsTooLarge(err) {
			t.Errorf("status of %d bytes: got %#v: %v, want an error that it is too large", bytes, err, err)
		}
	}
}

func TestActionSetOutputsTooLargeTogether(t *testing.T) {
	e := newActionsEnv(t)
	e.startNode(map[string]program{"large": func(_ context.Context, c *call) int {
		for i := range 6 {
			c.output(fmt.Sprint("key", i), strings.Repeat("z", 75<<10))
		}
		return 0
	}})
	e.run(nil)
	e.startRun("large", "  phases: ["+taskPhase("one", "large")+", "+taskPhase("two", "large")+", "+taskPhase("three", "large")+", "+taskPhase("four", "large")+"]\n"+
		"  deferPhase: "+createPhase("cleanup")+"\n")
	set := e.awaitEnd("large")
	const begins = "failed one=complete two=complete three=failed four=pending defer cleanup=complete; 50%; OutputTooLarge: the output of the phase has as JSON 4"
	if got := summary(set); !strings.HasPrefix(got, begins) || !strings.Contains(got, "and may have 1310720 in all") {
		t.Errorf("got\n%s, want\n%s...", got, begins)
	}
	e.wantCleanUp(set)
	e.deleteSet("large")
	e.awaitGone("large")
}

// The ActionSet is so large that etcd just accepts it.
func TestActionSetNoRoomForStatus(t *testing.T) {
	e := newActionsEnv(t)
	set := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
		Name: "go", Blueprint: "none", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
	}}}}
	created := false
	for bytes := 1536<<10 - 100; !created && bytes > 1500<<10; bytes -= 100 {
		set.Spec.Actions[0].Options = map[string]string{"large": strings.Repeat("o", bytes)}
		_, err := e.client.CrV1alpha1().ActionSets(e.namespace).Create(t.Context(), set, metav1.CreateOptions{})
		if created = err == nil; !created && !controller.IsTooLarge(err) {
			t.Fatal(err)
		}
	}
	if !created {
		t.Fatal("etcd accepted none of the sizes")
	}
	var journal faultproxy.Journal
	e.run(&journal)
	e.eventually(func() string {
		list, err := e.kube.CoreV1().Events(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=full,type=" + corev1.EventTypeWarning})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			if event.Reason == v1alpha1.ReasonStatusTooLarge && strings.Contains(event.Message, "delete it, and create one with a smaller spec") {
				return ""
			}
		}
		return fmt.Sprintf("got events %v, want StatusTooLarge", list.Items)
	})
	e.startRun("later", "  phases: ["+createPhase("one")+"]\n")
	e.awaitEnd("later")
	writes := journal.Select(func(entry faultproxy.Entry) bool { return entry.Subresource == "status" && entry.Name == "full" })
	if len(writes) > 2 {
		t.Errorf("got %d writes of its status, want 2 at most", len(writes))
	}
	e.deleteSet("full")
	e.awaitGone("full")
}

// endEvents returns the events that report the end of a run.
func (e *actionsEnv) endEvents(set string) (found []corev1.Event) {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ActionSet,involvedObject.name=" + set})
	if err != nil {
		e.Fatal(err)
	}
	for _, event := range list.Items {
		if event.Reason == "Update Complete" || event.Type == corev1.EventTypeWarning {
			found = append(found, event)
		}
	}
	return found
}

// The run has more events than one object may have, but the last one is recorded.
func TestActionSetLastEventOfManyPhases(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	phases := "  phases:\n"
	for i := range 105 { // two events each; the limit is 200
		phases += fmt.Sprintf("  - %s\n", createConfigMapPhase(fmt.Sprint("phase", i), fmt.Sprint("$ME-", i)))
	}
	e.startRun("many", phases)
	e.awaitEnd("many")
	e.eventually(func() string {
		if found := e.endEvents("many"); len(found) != 1 || found[0].Reason != "Update Complete" || found[0].Count != 1 {
			return fmt.Sprintf("got events %v, want Update Complete", found)
		}
		return ""
	})
}

// The process is killed after the runs have ended, before it posts an event.
func TestActionSetLastEventAfterRestart(t *testing.T) {
	e := newActionsEnv(t)
	first := e.run(nil)
	first.proxy.Hang(func(r faultproxy.Request) bool { return r.Resource == "events" })
	e.startRun("complete", "  phases: ["+createPhase("one")+"]\n")
	e.startRun("fails", "  phases: ["+createPhase("one")+", {func: KubeOps, name: two, args: {operation: create, spec: 'no object'}}]\n"+
		"  deferPhase: "+createPhase("cleanup")+"\n")
	e.awaitEnd("complete")
	fails := e.awaitEnd("fails")
	first.kill()
	for _, set := range []string{"complete", "fails"} {
		if found := e.endEvents(set); len(found) > 0 {
			t.Fatalf("got events %v of the first process, want none", found)
		}
	}
	for range 2 {
		next := e.run(nil)
		e.startRun("later", "  phases: []\n")
		e.awaitEnd("later")
		for set, message := range map[string]string{
			"complete": "Updated ActionSet 'complete' Status->complete", "fails": "Failed to execute phase: " + fails.Status.Error.Message,
		} {
			e.eventually(func() string {
				if found := e.endEvents(set); len(found) != 1 || found[0].Message != message || found[0].Count != 1 {
					return fmt.Sprintf("events of the end of ActionSet %s: got %v, want one: %s", set, found, message)
				}
				return ""
			})
		}
		next.stop()
		e.deleteSet("later")
		e.awaitGone("later")
		if err := e.client.CrV1alpha1().Blueprints(e.namespace).Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
