// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

const (
	// outputMarker stands before a phase's output in a line that a container prints.
	outputMarker = "###Phase-output###:"
	// maxOutputs is how much the keys and values of a phase's output may be in all: the status of a run is one object.
	maxOutputs = 512 << 10
	// maxOutputLine is what one output may be as JSON, where a byte may take six.
	maxOutputLine = 6*maxOutputs + 1024
	// maxLogPiece is how much of a longer line is logged in one piece.
	maxLogPiece = 16 << 10
)

// ErrOutputTooLarge means that a phase printed more output than a status can hold.
var ErrOutputTooLarge = fmt.Errorf("OutputTooLarge: the outputs of a phase are more than %d bytes in all", maxOutputs)

// OutputReader finds a phase's output in what its container prints: lines that have, after the marker ###Phase-output###:, the
// JSON {"key":k,"value":v}. A later value of a key replaces an earlier one. All other lines are logged. Lines may be of any
// length; of those without the marker, no more than one piece is held. The bytes come by Write, in any pieces; Close ends the
// last line.
type OutputReader struct {
	log     func(piece []byte)
	outputs map[string]string
	size    int
	// line is what is held of the current line; the JSON of an output, after the marker, when inOutput.
	line     []byte
	inOutput bool
	err      error
}

// NewOutputReader returns a reader that gives all text but outputs to log, without the ends of lines. Log must not keep it.
func NewOutputReader(log func(piece []byte)) *OutputReader {
	return &OutputReader{log: log, outputs: map[string]string{}}
}

// Outputs is what was found so far; nil if nothing was.
func (r *OutputReader) Outputs() map[string]string {
	if len(r.outputs) == 0 {
		return nil
	}
	return r.outputs
}

// Write returns an error if an output cannot be read or is too large, and from then on always.
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

// Restart drops an unfinished line: what comes next is a text from its start. Outputs stay, until the text replaces them.
func (r *OutputReader) Restart() { r.line, r.inOutput = r.line[:0], false }

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
			if len(r.line)+len(part) > maxOutputLine {
				r.err = ErrOutputTooLarge
				return
			}
			r.line = append(r.line, part...)
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

func (r *OutputReader) logPiece(piece []byte) {
	if len(piece) > 0 {
		r.log(piece)
	}
}

func (r *OutputReader) endLine() {
	if r.inOutput {
		r.take()
	} else {
		r.logPiece(bytes.TrimSuffix(r.line, []byte("\r")))
	}
	// A long output is not held forever.
	if cap(r.line) > 4*maxLogPiece {
		r.line = nil
	}
	r.line, r.inOutput = r.line[:0], false
}

// take reads one output.
func (r *OutputReader) take() {
	var output struct{ Key, Value string }
	if err := json.Unmarshal(r.line, &output); err != nil {
		r.err = knownf("Failed to unmarshal key-value pair: %w", err)
		return
	}
	if old, replaced := r.outputs[output.Key]; replaced {
		r.size -= len(output.Key) + len(old)
	}
	r.size += len(output.Key) + len(output.Value)
	if r.size > maxOutputs {
		r.err = ErrOutputTooLarge
		return
	}
	r.outputs[output.Key] = output.Value
}

// MergeOutputs makes one of the outputs of several readers; nil if there are none. A later value of a key replaces an earlier one.
func MergeOutputs(all ...map[string]string) (map[string]string, error) {
	var merged map[string]string
	for _, outputs := range all {
		if merged == nil && len(outputs) > 0 {
			merged = map[string]string{}
		}
		maps.Copy(merged, outputs)
	}
	size := 0
	for key, value := range merged {
		size += len(key) + len(value)
	}
	if size > maxOutputs {
		return nil, ErrOutputTooLarge
	}
	return merged, nil
}
