// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tail keeps the last lines of a text, short enough for the message of a failure.
package tail

import (
	"bytes"
	"strings"
)

const (
	// MaxLines is the number of lines that are kept.
	MaxLines = 10
	// MaxLineBytes is how much of each line is kept, in bytes.
	MaxLineBytes = 300
	// maxPending is how much of a line without its end is buffered, in bytes.
	maxPending = 4 << 10
)

// Append adds a line to the last lines of a text and returns the new last lines. Empty lines are dropped, and long lines are shortened.
func Append(lines []string, line string) []string {
	if line = strings.TrimSpace(line); line == "" {
		return lines
	}
	if len(line) > MaxLineBytes {
		line = strings.ToValidUTF8(line[:MaxLineBytes], "") + "..."
	}
	lines = append(lines, line)
	return lines[max(0, len(lines)-MaxLines):]
}

// Buffer keeps the last lines of a stream. The zero value is empty and ready for use.
type Buffer struct {
	lines   []string
	pending []byte
}

// Add takes in the next piece of the stream.
func (b *Buffer) Add(p []byte) {
	for len(p) > 0 {
		part, rest, found := bytes.Cut(p, []byte("\n"))
		b.pending = append(b.pending, part[:min(len(part), maxPending-len(b.pending))]...)
		if found {
			b.EndLine()
		}
		p = rest
	}
}

// EndLine ends the line that the stream has begun.
func (b *Buffer) EndLine() {
	b.lines = Append(b.lines, string(b.pending))
	b.pending = b.pending[:0]
}

// String returns the lines, with newlines between them.
func (b *Buffer) String() string { return strings.Join(b.lines, "\n") }
