// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"sync"
)

// follower collects the output of a command, and calls done as soon as all lines of the file have appeared.
type follower struct {
	step step
	done func()

	mu     sync.Mutex
	output bytes.Buffer
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.output.Write(p)
	if f.step.appearsIn(f.output.String()) {
		f.done()
	}
	return len(p), nil
}

func (f *follower) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.output.String()
}
