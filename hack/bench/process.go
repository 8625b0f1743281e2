// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// stopTimeout is longer than hack/leash waits before it kills.
	stopTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// process is a command on a leash (hack/leash): it ends with us, however we end, and gets no Ctrl-C from the terminal.
type process struct {
	name    string
	command *exec.Cmd
	leash   io.Closer
	log     string        // the path of what it printed
	ended   chan struct{} // closed when it has ended
}

// startProcess starts a command of bin, which writes to a log in dir.
func startProcess(dir, name string, env []string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command = exec.Command(binary("leash"), append([]string{"--"}, args...)...)
	p.command.Env = append(os.Environ(), env...)
	p.command.Stdout, p.command.Stderr = log, log
	if p.leash, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w; run this by make bench, which builds what it needs, or from the root of the repository", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // ProcessState tells how it ended
	}()
	return p, nil
}

// binary is the path of a command that make has built.
func binary(name string) string { return filepath.Join("bin", name) }

// await returns when the condition is true. It fails when the process ends before, or the context.
func (p *process) await(ctx context.Context, what string, condition func() bool) error {
	for !condition() {
		select {
		case <-p.ended:
			return fmt.Errorf("waiting for %s: the %s has ended: %v; it printed:\n%s", what, p.name, p.command.ProcessState, p.output())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; the %s printed:\n%s", what, context.Cause(ctx), p.name, p.output())
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// onEnd calls the function once the process has ended.
func (p *process) onEnd(call func(error)) {
	go func() {
		<-p.ended
		call(fmt.Errorf("the %s has ended: %v; it printed:\n%s", p.name, p.command.ProcessState, p.output()))
	}()
}

// stop lets go of the leash and waits. A process that had ended before is an error.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the %s ended by itself: %v; it printed:\n%s", p.name, p.command.ProcessState, p.output())
	default:
	}
	_ = p.leash.Close()
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
		return errors.New("stopping the " + p.name + ": it had to be killed")
	}
}

// output is the end of what it printed.
func (p *process) output() []byte {
	const limit = 4 << 10
	content, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(content[max(0, len(content)-limit):])
}
