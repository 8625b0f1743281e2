// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/exec"
)

// newKubeExecAll returns the function on a node that runs commands with the executor.
func newKubeExecAll(t *testing.T, node exec.Executor) phase.Function {
	ctx, stop := context.WithCancel(context.Background())
	commands := exec.New(ctx, node, func(phase.ID) {})
	t.Cleanup(func() {
		stop()
		commands.Wait()
	})
	return kubeExec{Commands: commands, args: kubeExecAllArgs}
}

func newExecCall(t *testing.T, function phase.Function, args map[string]any) phase.Call {
	t.Helper()
	call := phase.Call{ID: testID, Args: args, StartTime: time.Now()}
	intent, err := function.Validate(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	call.Intent = intent
	return call
}

// startExec starts a call, and returns its state when nothing happens any more.
func startExec(t *testing.T, function phase.Function, call phase.Call) phase.Observation {
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

func TestKubeExecAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := exec.Executor(func(_ context.Context, in exec.Container, _ []string, stdout, _ io.Writer) error {
			// The first to be named is the last to end.
			time.Sleep(time.Duration(10-len(in.Name)) * time.Second)
			_, _ = fmt.Fprintf(stdout, "###Phase-output###: {\"key\":\"last\",\"value\":\"%s/%s\"}\n", in.Pod, in.Name)
			_, _ = fmt.Fprintf(stdout, "###Phase-output###: {\"key\":\"%s-%s\",\"value\":\"v\"}\n", in.Pod, in.Name)
			return nil
		})
		function := newKubeExecAll(t, node)
		began := time.Now()
		call := newExecCall(t, function, map[string]any{"namespace": "db", "pods": "pg-0  pg-1", "containers": "a bb ", "command": "sync"})
		startExec(t, function, call)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		observed, _ := function.Poll(t.Context(), call)
		want := phase.Observation{State: phase.Succeeded, Output: map[string]any{
			"last": "pg-1/bb", "pg-0-a": "v", "pg-0-bb": "v", "pg-1-a": "v", "pg-1-bb": "v",
		}}
		if diff := cmp.Diff(want, observed); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", time.Since(began), diff)
		}
	})
}

func TestKubeExecAllFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := exec.Executor(func(_ context.Context, in exec.Container, _ []string, _, _ io.Writer) error {
			if in.Name == "main" {
				return fmt.Errorf("container not found (%q)", in.Name)
			}
			return nil
		})
		function := newKubeExecAll(t, node)
		observed := startExec(t, function, newExecCall(t, function, map[string]any{
			"namespace": "db", "pods": "pg-0 pg-1", "containers": "side main", "command": []any{"sync"},
		}))
		want := "Pod pg-0, container main: Failed to exec command in pod: container not found (\"main\")\n" +
			"Pod pg-1, container main: Failed to exec command in pod: container not found (\"main\")"
		if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: want}, observed); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A container that is named twice runs the command once. Of its outputs, that of its last name counts.
func TestKubeExecAllNamesTwice(t *testing.T) {
	in, _, err := kubeExecAllArgs(phase.Call{Args: map[string]any{"namespace": "db", "pods": "a b a", "containers": "x y x x", "command": "sync"}})
	want := []exec.Container{
		{Namespace: "db", Pod: "b", Name: "y"}, {Namespace: "db", Pod: "b", Name: "x"},
		{Namespace: "db", Pod: "a", Name: "y"}, {Namespace: "db", Pod: "a", Name: "x"},
	}
	if diff := cmp.Diff(want, in); err != nil || diff != "" {
		t.Errorf("got error %v, containers (-want +got):\n%s", err, diff)
	}
}

func TestKubeExecAllTooMany(t *testing.T) {
	names := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("n", i))
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct {
		pods, containers int
		want             string
	}{
		{1000, 1, ""},
		{1, 1000, ""},
		{10, 100, ""},
		{1001, 1, "the arguments pods and containers name 1001 containers together (1001 Pods, 1 containers in each), and may name 1000: use several phases"},
		{5000, 5000, "the arguments pods and containers name 25000000 containers together (5000 Pods, 5000 containers in each), and may name 1000: use several phases"},
	} {
		args := map[string]any{"namespace": "db", "pods": names(test.pods), "containers": names(test.containers), "command": "sync"}
		_, err := newKubeExecAll(t, nil).Validate(t.Context(), phase.Call{Args: args})
		if message, _ := phase.FailureOf(err); message != test.want {
			t.Errorf("%d Pods, %d containers: got error %q, want %q", test.pods, test.containers, message, test.want)
		}
	}
}

func TestCommandSize(t *testing.T) {
	half := strings.Repeat("x", maxCommand/2-sizeOfWord)
	const refusal = " bytes, 16 for each word included, and may have 262144: put its text into a file of the container, or into a volume"
	for _, test := range []struct {
		command []any
		want    string
	}{
		{[]any{half, half}, ""},
		{[]any{half, half + "x"}, "the argument command has 262145" + refusal},
		{slices.Repeat([]any{""}, 20_000), "the argument command has 320000" + refusal},
	} {
		args := map[string]any{"namespace": "db", "pods": "a", "containers": "b", "command": test.command}
		_, err := newKubeExecAll(t, nil).Validate(t.Context(), phase.Call{Args: args})
		if message, _ := phase.FailureOf(err); message != test.want {
			t.Errorf("got error %q, want %q", message, test.want)
		}
	}
}

func TestInvalidPod(t *testing.T) {
	for _, args := range []map[string]any{
		{"namespace": "", "pod": "pg-0", "command": "ls"},
		{"namespace": "db", "pod": "", "command": "ls"},
		{"namespace": "db", "pod": "../secrets/x", "command": "ls"},
		{"namespace": "..", "pod": "pg-0", "command": "ls"},
		{"namespace": "db", "pod": "pg-0", "command": []any{}},
	} {
		intent, err := kubeExec{args: kubeExecArgs}.Validate(t.Context(), phase.Call{Args: args})
		if _, ok := phase.FailureOf(err); !ok {
			t.Errorf("%v: %v, %v", args, intent, err)
		}
	}
}
