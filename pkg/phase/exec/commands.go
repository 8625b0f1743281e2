// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// beginLimit is how long it is tried to open the stream of a command where it cannot have begun.
	beginLimit = 2 * time.Minute
	// beginDelay and maxBeginDelay are how long is waited in between.
	beginDelay, maxBeginDelay = 500 * time.Millisecond, 10 * time.Second
	// maxStreams is how many streams one phase has open at a time.
	maxStreams = 100
)

// Commands run in containers, through streams that end with this process. They are remembered until their phase has ended and
// Cancel is called. To close the stream is all that can be done to a command: what has begun may go on in its container.
type Commands struct {
	// ctx ends all streams.
	ctx  context.Context
	exec Executor
	wake func(phase.ID)
	// process is in each intent: what another process has intended may have begun.
	process string

	mu    sync.Mutex
	known map[phase.ID]*command
	tasks sync.WaitGroup
}

// command is that of one phase, in one or more containers.
type command struct {
	stop context.CancelFunc
	// how it goes. It is Running, then anything else.
	how phase.Observation
	in  []Container
	// unopened is why streams are not open, by the index of the container.
	unopened map[int]string
}

// waiting is what the command waits for.
func (c *command) waiting() phase.Waiting {
	for i, in := range c.in {
		if why, unopened := c.unopened[i]; unopened {
			return phase.Waiting{For: fmt.Sprintf("a stream to %s, so that the command can begin", in), Details: why}
		}
	}
	if len(c.in) == 1 {
		return phase.Waiting{For: fmt.Sprintf("the command in %s to end", c.in[0])}
	}
	return phase.Waiting{For: fmt.Sprintf("the command in %d containers to end", len(c.in))}
}

// commandIntent identifies the process that is about to run the command.
type commandIntent struct {
	Process string `json:"process"`
}

func New(ctx context.Context, exec Executor, wake func(phase.ID)) *Commands {
	return &Commands{ctx: ctx, exec: exec, wake: wake, process: string(uuid.NewUUID()), known: map[phase.ID]*command{}}
}

func (c *Commands) Intent() (map[string]any, error) {
	return phase.EncodeIntent(commandIntent{Process: c.process})
}

// Poll implements Function.
func (c *Commands) Poll(_ context.Context, call phase.Call) (phase.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.poll(call)
}

func (c *Commands) poll(call phase.Call) (phase.Observation, error) {
	var intent commandIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	known := c.known[call.ID]
	switch {
	case intent.Process != c.process:
		return phase.Observation{State: phase.Lost}, nil
	case c.ctx.Err() != nil:
		return phase.Observation{}, nil
	case known == nil:
		return phase.Observation{State: phase.Idle}, nil
	default:
		how := known.how
		if how.State == phase.Running {
			how.Waiting = known.waiting()
		}
		return how, nil
	}
}

// Run runs the command of the call in the containers, once, and returns how it goes.
func (c *Commands) Run(call phase.Call, in []Container, argv []string) (phase.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed, err := c.poll(call)
	if err != nil || observed.State != phase.Idle {
		return observed, err
	}
	ctx, stop := context.WithCancel(c.ctx)
	started := &command{stop: stop, how: phase.Observation{State: phase.Running}, in: in, unopened: map[int]string{}}
	c.known[call.ID] = started
	c.tasks.Go(func() {
		defer stop()
		c.end(ctx, call.ID, started, c.runAll(ctx, call.ID, started, argv))
	})
	observed = started.how
	observed.Waiting = started.waiting()
	return observed, nil
}

// noteStream remembers why the stream to a container is not open; "" is that it is.
func (c *Commands) noteStream(id phase.ID, of *command, i int, why string) {
	c.mu.Lock()
	_, before := of.unopened[i]
	if why == "" {
		delete(of.unopened, i)
	} else {
		of.unopened[i] = why
	}
	c.mu.Unlock()
	if before != (why != "") {
		c.wake(id)
	}
}

func (c *Commands) end(ctx context.Context, id phase.ID, ended *command, how phase.Observation) {
	c.mu.Lock()
	if ctx.Err() != nil {
		how = phase.Observation{State: phase.Stopped}
	}
	ended.how = how
	c.mu.Unlock()
	c.wake(id)
}

// Cancel implements Function: it closes the streams, or forgets the command when they are closed.
func (c *Commands) Cancel(ctx context.Context, call phase.Call) error { return c.Remove(ctx, call.ID) }

func (c *Commands) Remove(_ context.Context, id phase.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[id]
	switch {
	case known == nil:
	case known.how.State == phase.Running:
		known.stop()
	default:
		delete(c.known, id)
	}
	return nil
}

func (c *Commands) Found(namespace, name string) (ids []phase.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.known {
		if id.Namespace == namespace && id.Name == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// wait returns when the context has ended and all streams are closed.
func (c *Commands) Wait() {
	<-c.ctx.Done()
	// A caller that saw the context before its end has counted its task now.
	c.mu.Lock()
	//lint:ignore SA2001 To have been inside is all.
	c.mu.Unlock()
	c.tasks.Wait()
}

// runAll runs the command in all containers at the same time. Outputs are put together in the order of the containers, failures too.
func (c *Commands) runAll(ctx context.Context, id phase.ID, of *command, argv []string) phase.Observation {
	in := of.in
	outputs, failures := make([]map[string]string, len(in)), make([]error, len(in))
	slots := make(chan struct{}, maxStreams)
	var streams sync.WaitGroup
	for i := range in {
		slots <- struct{}{}
		streams.Go(func() {
			defer func() { <-slots }()
			outputs[i], failures[i] = c.runIn(ctx, id, in[i], argv, func(why string) { c.noteStream(id, of, i, why) })
			if failures[i] != nil && len(in) > 1 {
				failures[i] = phase.Failf("Pod %s, container %s: %v", in[i].Pod, in[i].Name, failures[i])
			}
		})
	}
	streams.Wait()
	merged, err := blueprint.MergeOutputs(outputs...)
	if err := errors.Join(append(failures, err)...); err != nil {
		return phase.Observation{State: phase.Failed, Message: err.Error()}
	}
	observed := phase.Observation{State: phase.Succeeded}
	if merged != nil {
		observed.Output = map[string]any{}
	}
	for key, value := range merged {
		observed.Output[key] = value
	}
	return observed
}

// runIn runs the command in one container. It tries again only where the command cannot have begun; unopened is called with the reason, and with
// "" when the command has begun.
func (c *Commands) runIn(ctx context.Context, id phase.ID, in Container, argv []string, unopened func(why string)) (map[string]string, error) {
	ctx = whenOpened(ctx, func() { unopened("") })
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "actionSet", klog.KRef(id.Namespace, id.Name), "phase", id.String(),
		"pod", klog.KRef(in.Namespace, in.Pod), "container", in.Name)
	limit := time.Now().Add(beginLimit)
	for delay := beginDelay; ; delay = min(2*delay, maxBeginDelay) {
		printed := newOutput()
		err := c.exec(ctx, in, argv, writer(printed.writeStdout), writer(printed.writeStderr))
		outputs, badOutput := printed.close()
		switch {
		case notStarted(err) && ctx.Err() == nil && time.Now().Add(delay).Before(limit):
			logger.Info("A command could not be started yet", "err", readable(err), "retryAfter", delay)
			unopened(readable(err))
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		case err != nil:
			return nil, execFailure(err, printed)
		default:
			return outputs, badOutput
		}
	}
}

// execFailure has the text that users know. The last lines are in it where the command has ended, or has printed something.
func execFailure(err error, printed *output) error {
	text := strings.TrimSuffix(readable(err), ".")
	stdout, stderr := printed.stdout.String(), printed.stderr.String()
	if errors.As(err, new(exec.CodeExitError)) || stdout != "" || stderr != "" {
		return phase.Failf("Failed to exec command in pod: %s.\nstdout: %s\nstderr: %s", text, stdout, stderr)
	}
	return phase.Failf("Failed to exec command in pod: %s", text)
}
