// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// fakeExec is a node that runs commands.
type fakeExec struct {
	mu  sync.Mutex
	ran []string
	// do is what each command does.
	do Executor
}

func (f *fakeExec) exec(ctx context.Context, in Container, command []string, stdout, stderr io.Writer) error {
	f.mu.Lock()
	f.ran = append(f.ran, in.Namespace+"/"+in.Pod+"/"+in.Name+": "+strings.Join(command, " "))
	f.mu.Unlock()
	return f.do(ctx, in, command, stdout, stderr)
}

// times returns how often a command was run.
func (f *fakeExec) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ran)
}

// execProcess is a process that runs commands, and what woke it.
type execProcess struct {
	*Commands
	stop context.CancelFunc

	mu    sync.Mutex
	woken []phase.ID
}

func newExecProcess(t *testing.T, node *fakeExec) *execProcess {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
	p := &execProcess{stop: stop}
	p.Commands = New(ctx, node.exec, func(id phase.ID) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.woken = append(p.woken, id)
	})
	t.Cleanup(func() {
		stop()
		p.Wait()
	})
	return p
}

func TestMain(m *testing.M) {
	// The library waits for a second if a connection was closed before.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// oneCommand is a function that runs one command in one container.
type oneCommand struct{ *Commands }

func (o oneCommand) Validate(context.Context, phase.Call) (map[string]any, error) { return o.Intent() }

func (o oneCommand) Start(_ context.Context, call phase.Call) (phase.Observation, error) {
	var args blueprint.KubeExecArgs
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return phase.Observation{}, err
	}
	return o.Run(call, []Container{{args.Namespace, args.Pod, args.Container}}, args.Command)
}

var execID = phase.ID{Namespace: "ops", Name: "backup", UID: "u1", Action: 0, Phase: 1}

func execCall(function phase.Function, t *testing.T, args map[string]any) phase.Call {
	t.Helper()
	call := phase.Call{ID: execID, Args: args, StartTime: time.Now()}
	intent, err := function.Validate(t.Context(), call)
	if err != nil {
		t.Fatalf("validating: %v", err)
	}
	call.Intent = intent
	return call
}

func oneExec() map[string]any {
	return map[string]any{"namespace": "db", "pod": "pg-0", "command": []any{"pg_dump", "all"}}
}

// startAndEnd starts a call and returns how it has ended.
func startAndEnd(t *testing.T, function phase.Function, call phase.Call) phase.Observation {
	t.Helper()
	if observed, err := function.Start(t.Context(), call); err != nil || observed.State != phase.Running {
		t.Fatalf("it is started: %+v, %v", observed, err)
	}
	synctest.Wait()
	observed, err := function.Poll(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return observed
}

func TestCommandOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("v", 70000)
		node := &fakeExec{do: func(_ context.Context, _ Container, _ []string, stdout, stderr io.Writer) error {
			_, _ = fmt.Fprintf(stdout, "%s\nsaved ###Phase-output###: {\"key\":\"long\",\"value\":%q}\n", strings.Repeat("x", 100000), long)
			_, _ = fmt.Fprintln(stderr, `###Phase-output###: {"key":"no","value":"stderr has none"}`)
			_, _ = io.WriteString(stdout, `###Phase-output###: {"key":"last","value":"l"}`)
			return nil
		}}
		p := newExecProcess(t, node)
		observed := startAndEnd(t, oneCommand{p.Commands}, execCall(oneCommand{p.Commands}, t, oneExec()))
		want := phase.Observation{State: phase.Succeeded, Output: map[string]any{"long": long, "last": "l"}}
		if diff := cmp.Diff(want, observed); diff != "" {
			t.Errorf("its end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"db/pg-0/: pg_dump all"}, node.ran); diff != "" {
			t.Errorf("what was run: %s", diff)
		}
		if len(p.woken) != 1 || p.woken[0] != execID {
			t.Errorf("the end wakes %v", p.woken)
		}
	})
}

func TestCommandWithoutOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newExecProcess(t, &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error { return nil }})
		observed := startAndEnd(t, oneCommand{p.Commands}, execCall(oneCommand{p.Commands}, t, oneExec()))
		if observed.State != phase.Succeeded || observed.Output != nil {
			t.Errorf("it ends as %+v", observed)
		}
	})
}

func TestCommandFailureMessages(t *testing.T) {
	exit := exec.CodeExitError{Err: errors.New("command terminated with exit code 7"), Code: 7}
	for name, test := range map[string]struct {
		stdout, stderr string
		err            error
		want           string
	}{
		"exit code": {"out", "err", exit, "Failed to exec command in pod: command terminated with exit code 7.\nstdout: out\nstderr: err"},
		"silent":    {"", "", exit, "Failed to exec command in pod: command terminated with exit code 7.\nstdout: \nstderr: "},
		"ten lines": {
			"0\n1\n2\n3\n4\n\n5\n6\n7\n8\n9\n10\n", "", exit,
			"Failed to exec command in pod: command terminated with exit code 7.\nstdout: 1\n2\n3\n4\n5\n6\n7\n8\n9\n10\nstderr: ",
		},
		"no such Pod": {
			"", "", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pg-0"),
			`Failed to exec command in pod: pods "pg-0" not found`,
		},
		"stream lost": {"half", "", errors.New("unexpected EOF"), "Failed to exec command in pod: unexpected EOF.\nstdout: half\nstderr: "},
		"no node": {
			"", "", errors.New(`error sending request: Post "https://10.0.0.1:10250/exec/db/pg-0/c?command=login&command=hunter2": connection refused`),
			`Failed to exec command in pod: error sending request: Post "https://10.0.0.1:10250/exec/db/pg-0/c": connection refused`,
		},
		"bad output":   {"###Phase-output###: oops", "", nil, "Failed to unmarshal key-value pair: invalid character 'o' looking for beginning of value"},
		"failed first": {"###Phase-output###: oops", "", exit, "Failed to exec command in pod: command terminated with exit code 7.\nstdout: ###Phase-output###: oops\nstderr: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newExecProcess(t, &fakeExec{do: func(_ context.Context, _ Container, _ []string, stdout, stderr io.Writer) error {
					_, _ = io.WriteString(stdout, test.stdout)
					_, _ = io.WriteString(stderr, test.stderr)
					return beforeStart(test.err)
				}})
				observed := startAndEnd(t, oneCommand{p.Commands}, execCall(oneCommand{p.Commands}, t, oneExec()))
				if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: test.want}, observed); diff != "" {
					t.Errorf("its end (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFailureMessageLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		printed := newOutput(blueprint.NewOutputs(t.Context(), func(context.Context) error { return nil }), 0)
		line := strings.Repeat("x", 1<<20) + "\n"
		for range 20 {
			printed.writeStdout([]byte(line))
			printed.writeStderr([]byte(line))
		}
		_ = printed.close()
		if text := execFailure(errors.New("x"), printed).Error(); len(text) > 10<<10 {
			t.Errorf("the failure has %d bytes", len(text))
		}
	})
}

func TestCommandRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		node := &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error {
			<-end
			return nil
		}}
		p := newExecProcess(t, node)
		function := oneCommand{p.Commands}
		call := execCall(function, t, oneExec())
		for range 3 {
			if observed, err := function.Start(t.Context(), call); err != nil || observed.State != phase.Running {
				t.Errorf("it is started: %+v, %v", observed, err)
			}
			synctest.Wait()
		}
		close(end)
		synctest.Wait()
		for range 2 {
			if observed, err := function.Start(t.Context(), call); err != nil || observed.State != phase.Succeeded {
				t.Errorf("it is started after its end: %+v, %v", observed, err)
			}
		}
		if node.times() != 1 {
			t.Errorf("it was run %d times", node.times())
		}
	})
}

func TestCommandOfOtherProcessIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error { return nil }}
		call := execCall(oneCommand{newExecProcess(t, node).Commands}, t, oneExec())
		another := oneCommand{newExecProcess(t, node).Commands}
		for what, ask := range map[string]func(context.Context, phase.Call) (phase.Observation, error){"poll": another.Poll, "start": another.Start} {
			if observed, err := ask(t.Context(), call); err != nil || observed.State != phase.Lost {
				t.Errorf("%s: %+v, %v", what, observed, err)
			}
		}
		synctest.Wait()
		if node.times() != 0 {
			t.Error("it runs it, perhaps for the second time")
		}
	})
}

func TestUnstartedCommandIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		function := oneCommand{newExecProcess(t, &fakeExec{}).Commands}
		if observed, err := function.Poll(t.Context(), execCall(function, t, oneExec())); err != nil || observed.State != phase.Idle {
			t.Errorf("%+v, %v", observed, err)
		}
	})
}

func TestCommandRetry(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	unavailable := apierrors.NewServiceUnavailable("etcd is away")
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pg-0")
	for name, test := range map[string]struct {
		err   error
		again bool
		want  string
	}{
		"no connection":   {dial, true, "Failed to exec command in pod: dial: connection refused"},
		"unavailable":     {unavailable, true, "Failed to exec command in pod: etcd is away"},
		"no such Pod":     {missing, false, `Failed to exec command in pod: pods "pg-0" not found`},
		"connection lost": {&net.OpError{Op: "read", Err: errors.New("reset by peer")}, false, "Failed to exec command in pod: read: reset by peer"},
		"refused by SPDY": {errors.New("unable to upgrade connection: pods is forbidden"), false, "Failed to exec command in pod: pods is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				failing.Store(true)
				node := &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error {
					if failing.Load() {
						return beforeStart(test.err)
					}
					return nil
				}}
				p := newExecProcess(t, node)
				function := oneCommand{p.Commands}
				call := execCall(function, t, oneExec())
				observed := startAndEnd(t, function, call)
				if !test.again {
					if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: test.want}, observed); diff != "" || node.times() != 1 {
						t.Errorf("after %d tries (-want +got):\n%s", node.times(), diff)
					}
					return
				}
				if observed.State != phase.Running {
					t.Fatalf("it has ended: %+v", observed)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if node.times() < 3 || node.times() > 6 {
					t.Errorf("it was tried %d times in 10 s", node.times())
				}
				failing.Store(false)
				time.Sleep(maxBeginDelay)
				synctest.Wait()
				if observed, _ := function.Poll(t.Context(), call); observed.State != phase.Succeeded {
					t.Errorf("it does not succeed when it can: %+v", observed)
				}

				failing.Store(true)
				call.ID.Phase++
				began := time.Now()
				if observed := startAndEnd(t, function, call); observed.State != phase.Running {
					t.Fatalf("it has ended: %+v", observed)
				}
				time.Sleep(beginLimit)
				synctest.Wait()
				observed, _ = function.Poll(t.Context(), call)
				if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: test.want}, observed); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", time.Since(began), diff)
				}
			})
		})
	}
}

func TestCancelCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late io.Writer
		node := &fakeExec{do: func(ctx context.Context, _ Container, _ []string, stdout, _ io.Writer) error {
			late = stdout
			<-ctx.Done()
			return ctx.Err()
		}}
		p := newExecProcess(t, node)
		function := oneCommand{p.Commands}
		call := execCall(function, t, oneExec())
		if observed := startAndEnd(t, function, call); observed.State != phase.Running {
			t.Fatalf("it does not run: %+v", observed)
		}
		if err := function.Cancel(t.Context(), phase.Call{ID: call.ID}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if observed, _ := function.Poll(t.Context(), call); observed.State != phase.Stopped {
			t.Errorf("it is not stopped: %+v", observed)
		}
		if len(p.woken) != 1 {
			t.Errorf("woken %v, want one wake-up", p.woken)
		}
		_, _ = io.WriteString(late, "the stream may write after its end")
		for range 2 {
			if err := function.Cancel(t.Context(), phase.Call{ID: call.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.known) != 0 {
			t.Errorf("it is remembered: %v", p.known)
		}
	})
}

func TestFoundCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeExec{do: func(context.Context, Container, []string, io.Writer, io.Writer) error { return nil }}
		p := newExecProcess(t, node)
		call := execCall(oneCommand{p.Commands}, t, oneExec())
		startAndEnd(t, oneCommand{p.Commands}, call)
		if diff := cmp.Diff([]phase.ID{execID}, p.Found("ops", "backup")); diff != "" {
			t.Errorf("found: %s", diff)
		}
		if other := p.Found("ops", "another"); other != nil {
			t.Errorf("of another ActionSet: %v", other)
		}
		if err := p.Remove(t.Context(), execID); err != nil || p.Found("ops", "backup") != nil {
			t.Errorf("it is not removed: %v", err)
		}
		// A cache that is stale shows that it runs.
		observed, err := oneCommand{p.Commands}.Start(t.Context(), call)
		if synctest.Wait(); err != nil || observed.State != phase.Unknown || node.times() != 1 {
			t.Errorf("started again after its end: got state %q (%v), and %d commands", observed.State, err, node.times())
		}
	})
}

func TestProcessEndEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeExec{do: func(ctx context.Context, _ Container, _ []string, _, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		p := newExecProcess(t, node)
		function := oneCommand{p.Commands}
		call := execCall(function, t, oneExec())
		startAndEnd(t, function, call)
		p.stop()
		p.Wait()
		observed, err := function.Poll(t.Context(), call)
		if err != nil || observed.State != phase.Unknown {
			t.Errorf("what the end of the process does is taken for how it ended: %+v, %v", observed, err)
		}
		call.ID.Phase++
		if observed, err := function.Start(t.Context(), call); err != nil || observed.State != phase.Unknown || node.times() != 1 {
			t.Errorf("something is started after the end: %+v, %v", observed, err)
		}
	})
}

func TestWaitingOfCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isThere atomic.Bool
		run := make(chan struct{})
		node := &fakeExec{do: func(ctx context.Context, _ Container, _ []string, _, _ io.Writer) error {
			if !isThere.Load() {
				return notStartedError{errors.New("the kubelet is away")}
			}
			ctx.Value(openedKey{}).(func())()
			<-run
			return nil
		}}
		p := newExecProcess(t, node)
		call := execCall(oneCommand{p.Commands}, t, oneExec())
		observed := startAndEnd(t, oneCommand{p.Commands}, call)
		wantEqual(t, "before it begins", observed.Waiting, phase.Waiting{For: "a stream to Pod db/pg-0, so that the command can begin", Details: "the kubelet is away"})
		isThere.Store(true)
		time.Sleep(beginDelay)
		synctest.Wait()
		if observed, _ = p.Poll(t.Context(), call); observed.State != phase.Running {
			t.Errorf("it is %s", observed.State)
		}
		wantEqual(t, "when it has begun", observed.Waiting, phase.Waiting{For: "the command in Pod db/pg-0 to end"})
		if len(p.woken) != 2 {
			t.Errorf("woken %d times, want 2", len(p.woken))
		}
		close(run)
	})
}

func TestWaitingOfSeveralCommands(t *testing.T) {
	of := &command{in: []Container{{"db", "a", "c"}, {"db", "b", "c"}}, unopened: map[int]string{1: "away"}}
	wantEqual(t, "one is away", of.waiting(), phase.Waiting{For: "a stream to container c of Pod db/b, so that the command can begin", Details: "away"})
	delete(of.unopened, 1)
	wantEqual(t, "none is", of.waiting(), phase.Waiting{For: "the command in 2 containers to end"})
}
