// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// A kubelet ends the stream of a log after some hours, and connections break, which looks alike.
func TestActionSetLogStreamEndsEarly(t *testing.T) {
	e := newActionsEnv(t)
	middle, last := newGate(), newGate()
	e.startNode(map[string]program{"talks": func(ctx context.Context, c *call) int {
		c.output("a", "first")
		middle.pass(ctx, c)
		c.output("b", "between")
		last.pass(ctx, c)
		c.output("c", strings.Repeat("z", longValue))
		return 0
	}})
	e.run(nil)
	e.goes("talks", "  phases: ["+task("task", "talks")+"]\n")
	for streams, before := range []*gate{middle, last} {
		text := before.holds(e.env).log()
		e.eventually(func() string {
			if opened := text.opened(); opened <= streams {
				return fmt.Sprintf("the log was opened %d times", opened)
			}
			return ""
		})
		text.cut(before == last)
		close(before.open)
	}
	set := e.ends("talks", "complete task=complete; 100%")
	want := map[string]any{"a": "first", "b": "between", "c": strings.Repeat("z", longValue)}
	if diff := cmp.Diff(want, outputs(t, set, "task")); diff != "" {
		t.Errorf("the outputs (-want +got):\n%s", diff)
	}
}

func TestActionSetLogRetry(t *testing.T) {
	e := newActionsEnv(t)
	n := e.startNode(images)
	var asked atomic.Int32
	n.mu.Lock()
	n.refuseLogs = func(string, bool) int {
		if asked.Add(1) <= 2 {
			return http.StatusInternalServerError
		}
		return 0
	}
	n.mu.Unlock()
	e.run(nil)
	e.goes("later", "  phases: ["+task("task", "two-outputs")+"]\n")
	set := e.ends("later", "complete task=complete; 100%")
	if diff := cmp.Diff(map[string]any{"a": "last", "b": "two"}, outputs(t, set, "task")); diff != "" {
		t.Errorf("the outputs (-want +got):\n%s", diff)
	}
}

func TestActionSetPhasePodDeleted(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": func(ctx context.Context, c *call) int {
		c.print("working")
		if !held.pass(ctx, c) {
			return 143
		}
		return 0
	}})
	e.run(nil)
	e.goes("gone", "  phases: ["+task("task", "held")+", "+creating("second")+"]\n  deferPhase: "+creating("cleanup")+"\n")
	pod := held.holds(e.env).pod
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	set := e.awaitEnd("gone")
	const begins = `failed task=failed second=pending defer cleanup=complete; 0%; {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: `
	if got := summary(set); !strings.HasPrefix(got, begins) {
		t.Errorf("it has ended as\n%s, want\n%s...", got, begins)
	}
	e.leavesNothing(set)
}

func TestActionSetOutputTooLarge(t *testing.T) {
	e := newActionsEnv(t)
	e.startNode(map[string]program{"huge": func(_ context.Context, c *call) int {
		for i := range 9 {
			c.output(fmt.Sprint("key", i), strings.Repeat("z", longValue))
		}
		return 0
	}})
	e.run(nil)
	e.goes("huge", "  phases: ["+task("task", "huge")+"]\n")
	set := e.awaitEnd("huge")
	if set.Status.State != v1alpha1.StateFailed || !strings.Contains(set.Status.Error.Message, "OutputTooLarge") {
		t.Errorf("it has ended as %s", summary(set))
	}
	if len(set.Status.Error.Message) > 1000 {
		t.Errorf("the message has %d bytes", len(set.Status.Error.Message))
	}
}
