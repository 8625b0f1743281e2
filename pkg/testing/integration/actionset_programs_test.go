// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// program is what a container, or a command in one, does. It returns the exit code, and early when the context ends.
type program func(ctx context.Context, c *call) (exitCode int)

// call of a program.
type call struct {
	pod            *corev1.Pod
	container      string
	command        []string
	stdout, stderr io.Writer
}

// print a line.
func (c *call) print(format string, args ...any) { fmt.Fprintf(c.stdout, format+"\n", args...) }

// output prints an output as kando does.
func (c *call) output(key, value string) {
	c.print(`###Phase-output###: {"key":%q,"value":%q}`, key, value)
}

// log of the container.
func (c *call) log() *containerLog { return c.stdout.(*containerLog) }

// gate holds programs back, and tells which have come to it.
type gate struct {
	came chan *call
	open chan struct{}
}

func newGate() *gate { return &gate{make(chan *call, 100), make(chan struct{})} }

// pass waits until the gate is open, or the context ends: then it returns false.
func (g *gate) pass(ctx context.Context, c *call) bool {
	g.came <- c
	select {
	case <-g.open:
		return true
	case <-ctx.Done():
		return false
	}
}

// program that goes through the gate and ends well.
func (g *gate) program(ctx context.Context, c *call) int {
	if !g.pass(ctx, c) {
		return 143
	}
	return 0
}

// holds waits until a program has come to the gate.
func (g *gate) holds(e *env) *call {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	select {
	case c := <-g.came:
		return c
	case <-ctx.Done():
		e.Fatalf("no program has come that far within %s", patience)
		return nil
	}
}

// sleeps until it is told to stop.
func sleeps(ctx context.Context, _ *call) int {
	<-ctx.Done()
	return 143
}
