// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"fmt"
	"sync"
)

const (
	// maxOutputs is the maximum size of the keys and values of a phase's outputs together, in bytes: the status of a run is one object.
	maxOutputs = 512 << 10
	// maxOutputLine is the maximum size of one output as JSON, in bytes. A character that is not ASCII has up to three times its size if it is escaped.
	maxOutputLine = 3*maxOutputs + 1024
	// smallOutputs and smallOutputLine are how much the outputs of a phase, and a line with an output, may take in memory without a call of grow, in bytes.
	smallOutputs    = 32 << 10
	smallOutputLine = 16 << 10
)

// ErrOutputTooLarge means that a phase printed more output than a status can hold.
var ErrOutputTooLarge = fmt.Errorf("OutputTooLarge: the outputs of a phase are more than %d bytes in all, or one of them is more than %d bytes as JSON",
	maxOutputs, maxOutputLine)

// Outputs are the outputs of one phase, which readers find in what its containers print. If containers print outputs with the same key, that of the
// container with the highest index counts. Methods may be called concurrently.
type Outputs struct {
	ctx  context.Context
	grow func(context.Context) error
	// longLine has a token while a reader holds a line of more than smallOutputLine: one reader at a time does.
	longLine chan struct{}

	mu     sync.Mutex
	values map[string]containerOutput
	size   int
	// grown: grow has succeeded.
	grown bool
}

type containerOutput struct {
	value     string
	container int
}

// NewOutputs returns outputs that call grow before they take more than a small part of the memory that they may take. It may be called more than once,
// and concurrently. Readers wait for it, and return its error; they stop waiting when the context ends.
func NewOutputs(ctx context.Context, grow func(context.Context) error) *Outputs {
	return &Outputs{ctx: ctx, grow: grow, longLine: make(chan struct{}, 1), values: map[string]containerOutput{}}
}

// Values returns what was found so far; nil if nothing was.
func (o *Outputs) Values() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.values) == 0 {
		return nil
	}
	values := make(map[string]string, len(o.values))
	for key, found := range o.values {
		values[key] = found.value
	}
	return values
}

// beginLongLine waits until no other reader holds a long line, and until there is memory for it.
func (o *Outputs) beginLongLine() error {
	select {
	case o.longLine <- struct{}{}:
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
	if err := o.grow(o.ctx); err != nil {
		o.endLongLine()
		return err
	}
	return nil
}

func (o *Outputs) endLongLine() { <-o.longLine }

// put adds an output, or replaces the one with its key.
func (o *Outputs) put(key string, found containerOutput) error {
	if stored, err := o.tryPut(key, found); stored || err != nil {
		return err
	}
	if err := o.grow(o.ctx); err != nil {
		return err
	}
	o.mu.Lock()
	o.grown = true
	o.mu.Unlock()
	_, err := o.tryPut(key, found)
	return err
}

// tryPut does what put does. It returns false if grow has to be called before.
func (o *Outputs) tryPut(key string, found containerOutput) (stored bool, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, replaced := o.values[key]
	size := o.size + len(key) + len(found.value)
	if replaced {
		size -= len(key) + len(old.value)
	}
	switch {
	case replaced && old.container > found.container:
		return true, nil
	case size > maxOutputs:
		return false, ErrOutputTooLarge
	case size > smallOutputs && !o.grown:
		return false, nil
	}
	o.values[key], o.size = found, size
	return true, nil
}
