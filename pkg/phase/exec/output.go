// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"sync"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase/tail"
)

// output collects what a command prints. Nothing of it is logged, because it may be secret.
type output struct {
	// mu also keeps out what a stream writes after its end.
	mu     sync.Mutex
	closed bool

	outputs        *blueprint.OutputReader
	stdout, stderr tail.Buffer
}

// newOutput returns the output of a command in the container with this index.
func newOutput(of *blueprint.Outputs, container int) *output {
	return &output{outputs: of.Reader(container, func([]byte) {})}
}

// writer is a function that is an io.Writer. It never fails, so that an invalid output does not stop the command. It may wait: then the command waits as with
// a full pipe.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func (o *output) writeStdout(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		_, _ = o.outputs.Write(p) // close returns the error, too
		o.stdout.Add(p)
	}
}

func (o *output) writeStderr(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.stderr.Add(p)
	}
}

// close ends the streams. It returns an error if an output is not valid.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.stdout.EndLine()
	o.stderr.EndLine()
	return o.outputs.Close()
}
