// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"bytes"
	"strings"
	"sync"

	"millwright.dev/pkg/blueprint"
)

// maxHeldLine is how much of a line is held, in bytes. It is shown by a failure so far.
const maxHeldLine = 4 << 10

// execOutput takes in what a command prints. Nothing of it is logged: it is the user's, and may be secret.
type execOutput struct {
	// mu also keeps out what a stream writes after its end.
	mu     sync.Mutex
	closed bool

	outputs        *blueprint.OutputReader
	stdout, stderr tail
}

func newExecOutput() *execOutput {
	return &execOutput{outputs: blueprint.NewOutputReader(func([]byte) {})}
}

// writer is a function that is an io.Writer. It never fails: the command goes on whatever we make of what it prints.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func (o *execOutput) writeStdout(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		_, _ = o.outputs.Write(p) // an error is there when it is closed, too
		o.stdout.add(p)
	}
}

func (o *execOutput) writeStderr(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.stderr.add(p)
	}
}

// close ends the streams, and returns the outputs.
func (o *execOutput) close() (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.stdout.endLine()
	o.stderr.endLine()
	err := o.outputs.Close()
	return o.outputs.Outputs(), err
}

// tail keeps the last lines of a stream that are not empty.
type tail struct {
	lines []string
	line  []byte
}

func (t *tail) add(p []byte) {
	for len(p) > 0 {
		part, rest, found := bytes.Cut(p, []byte("\n"))
		t.line = append(t.line, part[:min(len(part), maxHeldLine-len(t.line))]...)
		if found {
			t.endLine()
		}
		p = rest
	}
}

func (t *tail) endLine() {
	t.lines = appendTail(t.lines, string(t.line))
	t.line = t.line[:0]
}

func (t *tail) String() string { return strings.Join(t.lines, "\n") }
