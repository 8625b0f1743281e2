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

// A kubelet ends the stream of a log after some hours. A connection that breaks looks the same. No line of the log is lost.
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
	e.startRun("talks", "  phases: ["+taskPhase("task", "talks")+"]\n")
	for streams, before := range []*gate{middle, last} {
		text := before.await(e.env).log()
		e.eventually(func() string {
			if opened := text.opened(); opened <= streams {
				return fmt.Sprintf("got %d streams of the log, want %d", opened, streams+1)
			}
			return ""
		})
		text.cut(before == last)
		close(before.open)
	}
	set := e.wantEnd("talks", "complete task=complete; 100%")
	want := map[string]any{"a": "first", "b": "between", "c": strings.Repeat("z", longValue)}
	if diff := cmp.Diff(want, outputs(t, set, "task")); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
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
	e.startRun("later", "  phases: ["+taskPhase("task", "two-outputs")+"]\n")
	set := e.wantEnd("later", "complete task=complete; 100%")
	if diff := cmp.Diff(map[string]any{"a": "last", "b": "two"}, outputs(t, set, "task")); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
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
	e.startRun("gone", "  phases: ["+taskPhase("task", "held")+", "+createPhase("second")+"]\n  deferPhase: "+createPhase("cleanup")+"\n")
	pod := held.await(e.env).pod
	if err := e.kube.CoreV1().Pods(e.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	set := e.awaitEnd("gone")
	const begins = `failed task=failed second=pending defer cleanup=complete; 0%; {"pod":"kanister-job-x"}: Failed while waiting for Pod to complete: `
	if got := summary(set); !strings.HasPrefix(got, begins) {
		t.Errorf("got\n%s, want\n%s...", got, begins)
	}
	e.wantCleanUp(set)
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
	e.startRun("huge", "  phases: ["+taskPhase("task", "huge")+"]\n")
	set := e.awaitEnd("huge")
	if set.Status.State != v1alpha1.StateFailed || !strings.Contains(set.Status.Error.Message, "OutputTooLarge") {
		t.Errorf("got %s, want the run failed with OutputTooLarge", summary(set))
	}
	if len(set.Status.Error.Message) > 1000 {
		t.Errorf("got a message of %d bytes, want 1000 at most", len(set.Status.Error.Message))
	}
}
