// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopTimeout is longer than hack/leash waits before it kills.
	stopTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// process is a command on a leash (hack/leash): it ends with this process, and gets no Ctrl-C from the terminal. If it ends before it is
// stopped, the run fails.
type process struct {
	name     string
	command  *exec.Cmd
	leash    io.Closer
	log      string // the path of what it printed
	stopping atomic.Bool
	ended    chan struct{} // closed when it has ended
}

func (b *bench) startProcess(name string, env []string, args ...string) (*process, error) {
	log, err := os.CreateTemp(b.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, log: log.Name(), ended: make(chan struct{})}
	p.command = exec.Command(binary("leash"), append([]string{"--"}, args...)...)
	p.command.Env = append(os.Environ(), env...)
	p.command.Stdout, p.command.Stderr = log, log
	if p.leash, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w; run make bench, which builds what it needs, or this from the root of the repository", name, err)
	}
	go func() {
		defer close(p.ended)
		err := p.command.Wait()
		if !p.stopping.Load() {
			b.fail(fmt.Errorf("the %s has ended: %v; it printed:\n%s", name, err, p.output()))
		}
	}()
	return p, nil
}

// awaitLine waits until the process has printed a line, and returns the first group of the pattern.
func (p *process) awaitLine(ctx context.Context, pattern *regexp.Regexp) (group string, err error) {
	err = poll(ctx, fmt.Sprintf("the %s to print %q", p.name, pattern), func() bool {
		log, err := os.ReadFile(p.log)
		match := pattern.FindSubmatch(log)
		if err != nil || match == nil {
			return false
		}
		group = string(match[1])
		return true
	})
	return group, err
}

// stop lets go of the leash and waits until the process has ended.
func (p *process) stop() error {
	p.stopping.Store(true)
	_ = p.leash.Close()
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("stopping the %s: it had to be killed; it printed:\n%s", p.name, p.output())
	}
}

// kill ends the process without any of its own doing.
func (p *process) kill() error {
	p.stopping.Store(true)
	err := p.signal(syscall.SIGKILL)
	<-p.ended
	return err
}

// signal sends a signal to the process and its leash, which are a process group.
func (p *process) signal(signal syscall.Signal) error {
	if err := syscall.Kill(-p.command.Process.Pid, signal); err != nil {
		return fmt.Errorf("sending %s to the %s: %w", signal, p.name, err)
	}
	return nil
}

// output returns the end of what it printed.
func (p *process) output() []byte {
	const limit = 4 << 10
	content, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(content[max(0, len(content)-limit):])
}

// poll returns when the condition is true. It fails when the context ends.
func poll(ctx context.Context, what string, condition func() bool) error {
	for !condition() {
		if err := sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}
