// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/testing/patience"
)

// program is what a container or a command in a container runs. It returns the exit code, early if the context ends.
type program func(ctx context.Context, c *call) (exitCode int)

// call is one run of a program.
type call struct {
	pod            *corev1.Pod
	container      string
	command        []string
	stdout, stderr io.Writer
}

// print prints a line.
func (c *call) print(format string, args ...any) { fmt.Fprintf(c.stdout, format+"\n", args...) }

// output prints an output as kando does.
func (c *call) output(key, value string) {
	c.print(`###Phase-output###: {"key":%q,"value":%q}`, key, value)
}

// log returns the log of the container.
func (c *call) log() *containerLog { return c.stdout.(*containerLog) }

// gate makes programs wait until it is opened, and reports which programs wait.
type gate struct {
	came chan *call
	open chan struct{}
}

func newGate() *gate { return &gate{make(chan *call, 100), make(chan struct{})} }

// pass waits until the gate is open. It returns false if the context ends before.
func (g *gate) pass(ctx context.Context, c *call) bool {
	g.came <- c
	select {
	case <-g.open:
		return true
	case <-ctx.Done():
		return false
	}
}

// program passes the gate and returns 0.
func (g *gate) program(ctx context.Context, c *call) int {
	if !g.pass(ctx, c) {
		return 143
	}
	return 0
}

// await waits until a program waits at the gate, and returns its call.
func (g *gate) await(e *env) *call {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience.Limit)
	defer cancel()
	select {
	case c := <-g.came:
		return c
	case <-ctx.Done():
		e.Fatalf("no program has reached the gate within %s", patience.Limit)
		return nil
	}
}

// sleeps is a program that waits until its container is stopped.
func sleeps(ctx context.Context, _ *call) int {
	<-ctx.Done()
	return 143
}
