// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// watch is a command that does not end, while it runs. It is stopped as soon as all lines of the file have appeared.
type watch struct {
	step  step
	stop  context.CancelFunc
	begun chan struct{} // closed when it has printed something
	ended chan struct{}
	err   error // of the command; read after ended

	mu     sync.Mutex
	output bytes.Buffer
}

// startWatch starts the command.
func startWatch(ctx context.Context, s step) *watch {
	ctx, cancel := context.WithTimeout(ctx, 2*(*patience)) // so that it does not hang
	w := &watch{step: s, stop: cancel, begun: make(chan struct{}), ended: make(chan struct{})}
	command := exec.CommandContext(ctx, "bash", "-c", "exec "+s.command)
	command.Stdout, command.Stderr = w, w
	go func() {
		defer close(w.ended)
		w.err = command.Run()
	}()
	return w
}

// Write collects what the command prints.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output.Len() == 0 && len(p) > 0 {
		close(w.begun)
	}
	w.output.Write(p)
	if w.step.appearsIn(w.output.String()) {
		w.stop()
	}
	return len(p), nil
}

// awaitBegin waits until the command has printed something: it has read the present state, and shows all later changes.
func (w *watch) awaitBegin() {
	select {
	case <-w.begun:
	case <-w.ended:
	}
}

// end ends the command early.
func (w *watch) end() {
	w.stop()
	<-w.ended
}

// await waits until all lines of the file have appeared. Its error has both outputs.
func (w *watch) await() error {
	<-w.ended
	w.stop()
	if w.step.appearsIn(w.output.String()) {
		return nil
	}
	return fmt.Errorf("not all lines appeared (%v).\nprinted:\n%s\nin the file:\n%s", w.err, w.output.String(), strings.Join(w.step.output, "\n"))
}
