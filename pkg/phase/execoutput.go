// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"bytes"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"millwright.dev/pkg/blueprint"
)

const (
	// maxHeldLine is how much of a line is held, in bytes. It is logged, or shown by a failure, so far.
	maxHeldLine = 4 << 10
	// maxLogged is how much of what a command prints is logged, in bytes.
	maxLogged = 256 << 10
)

// execOutput takes in what a command prints.
type execOutput struct {
	// mu also keeps out what a stream writes after its end.
	mu     sync.Mutex
	closed bool

	outputs        *blueprint.OutputReader
	stdout, stderr tail
	logger         klog.Logger
	logLeft        int
}

func newExecOutput(logger klog.Logger) *execOutput {
	o := &execOutput{logger: logger, logLeft: maxLogged}
	o.outputs = blueprint.NewOutputReader(func(piece []byte) { o.log("stdout", piece) })
	o.stderr.ended = func(line []byte) { o.log("stderr", line) }
	return o
}

// log a piece of a line, up to a limit: a command may print without end.
func (o *execOutput) log(stream string, piece []byte) {
	if o.logLeft <= 0 {
		return
	}
	o.logLeft -= len(piece)
	o.logger.Info("A command has printed", "stream", stream, "line", string(piece))
	if o.logLeft <= 0 {
		o.logger.Info("No more of what the command prints is logged", "limitBytes", maxLogged)
	}
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
	// ended is told the beginning of each line, if not nil.
	ended func(line []byte)
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
	if t.ended != nil && len(t.line) > 0 {
		t.ended(t.line)
	}
	t.lines = appendTail(t.lines, string(t.line))
	t.line = t.line[:0]
}

func (t *tail) String() string { return strings.Join(t.lines, "\n") }
