// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"bytes"
	"encoding/json"
)

const (
	// outputMarker stands before a phase's output in a line that a container prints.
	outputMarker = "###Phase-output###:"
	// maxLogPiece is how much of a longer line is logged in one piece.
	maxLogPiece = 16 << 10
)

// OutputReader finds a phase's output in what its container prints: lines that have, after the marker ###Phase-output###:, the
// JSON {"key":k,"value":v}. A later value of a key replaces an earlier one. All other lines are logged. Lines may be of any
// length; of those without the marker, no more than one piece is held. The bytes come by Write, in any pieces; Close ends the
// last line.
type OutputReader struct {
	outputs   *Outputs
	container int
	log       func(piece []byte)
	// line is what is held of the current line; the JSON of an output, after the marker, when inOutput.
	line     []byte
	inOutput bool
	// long: the reader holds a long line.
	long bool
	err  error
}

// Reader returns a reader of what the container with this index prints, from 0. It gives all text but outputs to log, without the ends of lines. Log must
// not keep it.
func (o *Outputs) Reader(container int, log func(piece []byte)) *OutputReader {
	return &OutputReader{outputs: o, container: container, log: log}
}

// Write returns an error if an output cannot be read or is too large, or the error of grow, and from then on always. It may wait: see NewOutputs.
func (r *OutputReader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && r.err == nil; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		r.add(line)
		if ended {
			r.endLine()
		}
		rest = after
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// Restart drops an unfinished line, and an error: what comes next is a text from its start. Outputs stay, until the text replaces them.
func (r *OutputReader) Restart() {
	r.dropLine()
	r.err = nil
}

// dropLine forgets the current line.
func (r *OutputReader) dropLine() {
	// A long output is not held forever.
	if cap(r.line) > 4*maxLogPiece {
		r.line = nil
	}
	r.line, r.inOutput = r.line[:0], false
	if r.long {
		r.long = false
		r.outputs.endLongLine()
	}
}

func (r *OutputReader) fail(err error) {
	r.err = err
	r.dropLine()
}

// Close ends a last line without an end.
func (r *OutputReader) Close() error {
	if r.err == nil && (len(r.line) > 0 || r.inOutput) {
		r.endLine()
	}
	return r.err
}

// add takes in a part of the current line.
func (r *OutputReader) add(part []byte) {
	for len(part) > 0 && r.err == nil {
		if r.inOutput {
			r.addToOutput(part)
			return
		}
		n := min(len(part), maxLogPiece)
		r.line, part = append(r.line, part[:n]...), part[n:]
		before, after, found := bytes.Cut(r.line, []byte(outputMarker))
		switch {
		case found:
			r.logPiece(before)
			// What follows may be more than the rest of the buffer: it is measured like all of an output.
			r.line, r.inOutput = append(r.line[:0], after...), true
		case len(r.line) > maxLogPiece:
			// The marker may have begun at the end.
			kept := len(r.line) - len(outputMarker) + 1
			r.logPiece(r.line[:kept])
			r.line = append(r.line[:0], r.line[kept:]...)
		}
	}
}

func (r *OutputReader) addToOutput(part []byte) {
	size := len(r.line) + len(part)
	if size > maxOutputLine {
		r.fail(ErrOutputTooLarge)
		return
	}
	if size > smallOutputLine && !r.long {
		if err := r.outputs.beginLongLine(); err != nil {
			r.fail(err)
			return
		}
		r.long = true
	}
	r.line = append(r.line, part...)
}

func (r *OutputReader) logPiece(piece []byte) {
	if len(piece) > 0 {
		r.log(piece)
	}
}

func (r *OutputReader) endLine() {
	if !r.inOutput {
		r.logPiece(bytes.TrimSuffix(r.line, []byte("\r")))
		r.dropLine()
		return
	}
	var found struct{ Key, Value string }
	if err := json.Unmarshal(r.line, &found); err != nil {
		r.fail(knownf("Failed to unmarshal key-value pair: %w", err))
		return
	}
	if err := r.outputs.put(found.Key, containerOutput{found.Value, r.container}); err != nil {
		r.fail(err)
		return
	}
	r.dropLine()
}
