// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"millwright.dev/hack/bench/traffic"
)

// What the two processes of a replay tell each other, a line each: the bare client says prepared, and done for each phase
// that it was told to go through. It ends when its standard input does.
const (
	sayPrepared = "prepared"
	sayGo       = "go"
	sayDone     = "done"
)

// replay is the bare client, in a process of its own as the operator is. It is prepared when it is started, so that its time
// is that of its requests.
type replay struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   chan string
	stderr  bytes.Buffer // to be read when the command has ended
	ended   chan struct{}
	err     error // why it ended
}

// startReplay returns when the bare client is ready to go through the phases.
func (b *bench) startReplay(ctx context.Context, p *population, c *contest, fail func(error)) (*replay, error) {
	r, err := startChild([]string{replayCommand, b.kubeconfig(), c.resource.Resource, p.namespace, strconv.Itoa(cmp.Or(c.atOnce, b.workers)), c.recording}, fail)
	if err != nil {
		return nil, err
	}
	return r, r.expect(ctx, sayPrepared)
}

// startChild runs this program once more, with other arguments.
func startChild(args []string, fail func(error)) (*replay, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program, to run it as the bare client: %w", err)
	}
	r := &replay{command: exec.Command(self, args...), lines: make(chan string, 8), ended: make(chan struct{})}
	r.command.Stderr = &r.stderr
	if r.stdin, err = r.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the bare client: %w", err)
	}
	go func() {
		defer close(r.ended)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			r.lines <- scanner.Text()
		}
		if err := r.command.Wait(); err != nil {
			r.err = fmt.Errorf("the bare client failed: %w: %s", err, bytes.TrimSpace(r.stderr.Bytes()))
			fail(r.err)
		}
	}()
	return r, nil
}

// begin lets it go through its next phase.
func (r *replay) begin(ctx context.Context, phase int) (begin time.Time, err error) {
	if phase > 0 {
		if err := r.expect(ctx, sayDone); err != nil {
			return begin, err
		}
	}
	begin = time.Now()
	if _, err := fmt.Fprintln(r.stdin, sayGo); err != nil {
		return begin, fmt.Errorf("telling the bare client to go: %w", err)
	}
	return begin, nil
}

func (r *replay) finish(ctx context.Context) error { return r.expect(ctx, sayDone) }

func (r *replay) expect(ctx context.Context, want string) error {
	select {
	case line := <-r.lines:
		if line != want {
			return fmt.Errorf("the bare client said %q, not %q", line, want)
		}
		return nil
	case <-r.ended:
		return fmt.Errorf("waiting for the bare client to say %q: it has ended: %w", want, r.err)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the bare client to say %q: %w", want, context.Cause(ctx))
	}
}

// stop ends it, and returns why it failed if it did.
func (r *replay) stop() error {
	_ = r.stdin.Close()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(stopTimeout):
		_ = r.command.Process.Kill()
		<-r.ended
		return fmt.Errorf("the bare client did not end with its standard input and was killed")
	}
}

// cpuSeconds are known once it has ended.
func (r *replay) cpuSeconds() float64 {
	return (r.command.ProcessState.UserTime() + r.command.ProcessState.SystemTime()).Seconds()
}

// saveRecording writes what was recorded where the bare client reads it.
func saveRecording(path string, recording traffic.Recording) error {
	content, err := json.Marshal(recording)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func loadRecording(path string) (recording traffic.Recording, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return recording, err
	}
	if err := json.Unmarshal(content, &recording); err != nil {
		return recording, fmt.Errorf("reading the recording %s: %w", path, err)
	}
	return recording, nil
}
