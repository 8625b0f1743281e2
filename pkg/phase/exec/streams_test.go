// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

// How many the ActionSets of one namespace may have in this process, which has no memory limit.
var (
	maxCommandsOfNamespace, _    = inflight.Shared(maxCommands)
	maxMoreStreamsOfNamespace, _ = inflight.Shared(maxMoreStreams)
	maxLargeOfNamespace, _       = inflight.Shared(maxLarge)
)

// hold acquires n units for a namespace.
func hold(t *testing.T, limit *inflight.Limit[string], namespace string, n int) (release func()) {
	t.Helper()
	var releases []func()
	for range n {
		release, ok := limit.TryAcquire(namespace)
		if !ok {
			t.Fatalf("namespace %s has less than %d", namespace, n)
		}
		releases = append(releases, release)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

func (p *execProcess) wantState(t *testing.T, when string, call phase.Call, want phase.State) phase.Observation {
	t.Helper()
	synctest.Wait()
	observed, err := p.Poll(t.Context(), call)
	if err != nil || observed.State != want {
		t.Errorf("%s: got state %q (%v), want %q: %+v", when, observed.State, err, want, observed)
	}
	return observed
}

func (p *execProcess) remove(t *testing.T, id phase.ID) {
	t.Helper()
	synctest.Wait()
	if err := p.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func start(t *testing.T, p *execProcess, call phase.Call) {
	t.Helper()
	if _, err := (oneCommand{p.Commands}).Start(t.Context(), call); err != nil {
		t.Error(err)
	}
}

// inNamespace returns a call of an ActionSet in a namespace.
func inNamespace(t *testing.T, p *execProcess, namespace string) phase.Call {
	t.Helper()
	call := execCall(oneCommand{p.Commands}, t, oneExec())
	call.ID.Namespace = namespace
	return call
}

// A command without a stream waits, is not in memory, and can be started when there is a stream. Commands of other namespaces do not wait.
func TestCommandWaitsForStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error { return nil }}
		p := newExecProcess(t, node)
		release := hold(t, p.streams, "ops", maxCommandsOfNamespace)
		call := inNamespace(t, p, "ops")
		start(t, p, call)
		observed := p.wantState(t, "without a stream", call, phase.Running)
		wantEqual(t, "what it waits for", observed.Waiting, phase.Waiting{
			For: "other commands to end, so that there is a stream for this one", Details: "80 commands run at a time, 60 of them for the ActionSets of one namespace",
		})
		other := inNamespace(t, p, "other")
		start(t, p, other)
		p.wantState(t, "in another namespace", other, phase.Succeeded)
		start(t, p, call) // changes nothing
		if node.times() != 1 || len(p.woken) != 1 {
			t.Errorf("without a stream: got %d commands and %d wake-ups, want those of the other namespace", node.times(), len(p.woken))
		}

		release()
		p.wantState(t, "with a stream", call, phase.Idle)
		if node.times() != 1 || len(p.woken) != 2 {
			t.Errorf("with a stream: got %d commands and %d wake-ups, want another wake-up", node.times(), len(p.woken))
		}
		start(t, p, call)
		p.wantState(t, "after the start", call, phase.Succeeded)
		hold(t, p.streams, "ops", maxCommandsOfNamespace) // all were released
	})
}

// A command that waits for a stream, or has one and was not started, can be cancelled. It leaves nothing.
func TestCancelWaitingCommand(t *testing.T) {
	for name, hasStream := range map[string]bool{"without a stream": false, "with a stream": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newExecProcess(t, &fakeExec{})
				release := hold(t, p.streams, "ops", maxCommandsOfNamespace)
				call := inNamespace(t, p, "ops")
				start(t, p, call)
				synctest.Wait()
				if hasStream {
					release()
					p.wantState(t, name, call, phase.Idle)
				} else {
					p.remove(t, call.ID)
					p.wantState(t, "cancelled", call, phase.Stopped)
					release()
				}
				p.remove(t, call.ID)
				if len(p.known) != 0 {
					t.Errorf("remembered commands: got %v, want none", p.known)
				}
				hold(t, p.streams, "ops", maxCommandsOfNamespace)
			})
		})
	}
}

// A command that has ended when it is cancelled, or is cancelled twice, is stopped.
func TestCancelledCommandIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newExecProcess(t, &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error { return nil }})
		call := inNamespace(t, p, "ops")
		start(t, p, call)
		p.remove(t, call.ID)
		call.Cancelled = true
		p.wantState(t, "polled after it is forgotten", call, phase.Stopped)
	})
}

func TestProcessEndsWhileCommandWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newExecProcess(t, &fakeExec{})
		hold(t, p.streams, "ops", maxCommandsOfNamespace)
		call := inNamespace(t, p, "ops")
		start(t, p, call)
		synctest.Wait()
		p.stop()
		p.Wait()
		p.wantState(t, "after the end of the process", call, phase.Unknown)
	})
}

// runInMany runs a command in n containers of an ActionSet in the namespace ops.
func runInMany(t *testing.T, p *execProcess, n int) phase.Call {
	t.Helper()
	call := inNamespace(t, p, "ops")
	var in []Container
	for i := range n {
		in = append(in, Container{"db", fmt.Sprint("pod-", i), "c"})
	}
	if _, err := p.Run(call, in, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	return call
}

// A command runs in all its containers with as many streams as there are. One is enough, since the command keeps it.
func TestStreamsOfOneCommand(t *testing.T) {
	for name, test := range map[string]struct{ containers, more, want int }{
		"one container":        {1, maxMoreStreamsOfNamespace, 1},
		"few containers":       {7, maxMoreStreamsOfNamespace, 7},
		"many containers":      {300, maxMoreStreamsOfNamespace, 1 + maxMoreStreamsOfNamespace},
		"few streams":          {30, 3, 4},
		"one stream":           {30, 0, 1},
		"as many as there are": {5, 4, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				open, most := 0, 0
				count := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					open += n
					most = max(most, open)
				}
				next := make(chan struct{})
				node := &fakeExec{do: func(_ context.Context, in Container, _ []string, stdout, _ io.Writer) error {
					count(1)
					<-next
					_, _ = fmt.Fprintf(stdout, "###Phase-output###: {\"key\":%q,\"value\":\"x\"}\n", in.Pod)
					count(-1)
					return nil
				}}
				p := newExecProcess(t, node)
				release := hold(t, p.more, "ops", maxMoreStreamsOfNamespace-test.more)
				call := runInMany(t, p, test.containers)
				for range test.containers {
					synctest.Wait()
					next <- struct{}{}
				}
				observed := p.wantState(t, "at the end", call, phase.Succeeded)
				if len(observed.Output) != test.containers || node.times() != test.containers || most != test.want {
					t.Errorf("got %d outputs, %d commands, %d of them at a time; want %d, %[4]d, %d",
						len(observed.Output), node.times(), most, test.containers, test.want)
				}
				release()
				hold(t, p.streams, "ops", maxCommandsOfNamespace)
				hold(t, p.more, "ops", maxMoreStreamsOfNamespace)
			})
		})
	}
}

// Streams that are released while a command runs are used for its other containers.
func TestCommandUsesReleasedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		end := make(chan struct{})
		p := newExecProcess(t, &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error {
			open.Add(1)
			<-end
			return nil
		}})
		release := hold(t, p.more, "ops", maxMoreStreamsOfNamespace)
		call := runInMany(t, p, 10)
		synctest.Wait()
		if n := open.Load(); n != 1 {
			t.Errorf("with one stream: got %d commands, want 1", n)
		}
		release()
		synctest.Wait()
		if n := open.Load(); n != 10 {
			t.Errorf("with all streams: got %d commands, want 10", n)
		}
		close(end)
		p.wantState(t, "at the end", call, phase.Succeeded)
	})
}

func TestCancelCommandInManyContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeExec{do: func(ctx context.Context, _ Container, _ []string, _, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		p := newExecProcess(t, node)
		call := runInMany(t, p, 300)
		p.remove(t, call.ID)
		p.wantState(t, "cancelled", call, phase.Stopped)
		if want := 1 + maxMoreStreamsOfNamespace; node.times() != want {
			t.Errorf("got %d commands, want the %d that ran before", node.times(), want)
		}
		hold(t, p.streams, "ops", maxCommandsOfNamespace)
		hold(t, p.more, "ops", maxMoreStreamsOfNamespace)
	})
}

// largeOutput prints an output for which a phase needs a place.
func largeOutput(stdout io.Writer) string {
	large := strings.Repeat("v", 40<<10)
	_, _ = fmt.Fprintf(stdout, "###Phase-output###: {\"key\":\"large\",\"value\":%q}\n", large)
	return large
}

// A command with large outputs waits until there is a place, which it has until its outputs are recorded. It can be cancelled before.
func TestCommandWaitsForPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var want string
		p := newExecProcess(t, &fakeExec{do: func(_ context.Context, _ Container, _ []string, stdout, _ io.Writer) error {
			want = largeOutput(stdout)
			return nil
		}})
		var calls []phase.Call
		for i := range maxLargeOfNamespace + 2 {
			call := inNamespace(t, p, "ops")
			call.ID.Phase = i
			start(t, p, call)
			synctest.Wait()
			calls = append(calls, call)
		}
		for _, call := range calls[:maxLargeOfNamespace] {
			p.wantState(t, "with a place", call, phase.Succeeded)
		}
		waits, cancelled := calls[maxLargeOfNamespace], calls[maxLargeOfNamespace+1]
		observed := p.wantState(t, "without a place", waits, phase.Running)
		wantEqual(t, "what it waits for", observed.Waiting, phase.Waiting{
			For:     "other commands with large outputs to end, so that those of the command can be read",
			Details: "12 commands at a time may have outputs of more than 32 KiB, 9 of them for the ActionSets of one namespace",
		})
		p.remove(t, cancelled.ID)
		p.wantState(t, "cancelled", cancelled, phase.Stopped)
		other := inNamespace(t, p, "other")
		start(t, p, other)
		p.wantState(t, "in another namespace", other, phase.Succeeded)

		p.remove(t, calls[0].ID)
		observed = p.wantState(t, "when another command is recorded", waits, phase.Succeeded)
		wantEqual(t, "its output", observed.Output, map[string]any{"large": want})
	})
}

// The failures of a thousand containers do not take more memory than those of a few.
func TestFailuresOfManyContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newExecProcess(t, &fakeExec{do: func(_ context.Context, in Container, _ []string, stdout, _ io.Writer) error {
			return fmt.Errorf("%s: %s", in.Pod, strings.Repeat("x", 3000))
		}})
		call := runInMany(t, p, 10)
		observed := p.wantState(t, "at the end", call, phase.Failed)
		if n := len(observed.Message); n < 9000 || n > 16<<10 || !strings.HasSuffix(observed.Message, "\nand 6 more containers") {
			t.Errorf("got a message of %d bytes, want four failures and the number of the others: %.300q", n, observed.Message)
		}
	})
	var f failures
	f.add(2, "two")
	f.add(0, "zero")
	wantEqual(t, "failures", f.String(), "zero\ntwo")
}
