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
	// beginLimit is how long opening the stream of a command is retried if the command cannot have begun.
	beginLimit = 2 * time.Minute
	// beginDelay and maxBeginDelay are the first and the longest delay between these attempts.
	beginDelay, maxBeginDelay = 500 * time.Millisecond, 10 * time.Second
	// maxStreams is the maximum number of open streams of one phase.
	maxStreams = 100
)

// Commands runs commands in containers, through streams that end with this process. A command is remembered until its phase has ended and
// Cancel is called. A command is cancelled by closing its stream only: it may continue to run in its container.
type Commands struct {
	// ctx ends all streams.
	ctx  context.Context
	exec Executor
	wake func(phase.ID)
	// process identifies this process in each intent: a command with the intent of another process may have begun.
	process string

	mu    sync.Mutex
	known map[phase.ID]*command
	tasks sync.WaitGroup
}

// command is the command of one phase, in one or more containers.
type command struct {
	stop context.CancelFunc
	// observed is the state: first Running, then the result.
	observed phase.Observation
	in       []Container
	// unopened is why streams are not open, by the index of the container.
	unopened map[int]string
}

// waiting returns what the command waits for.
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

// New returns Commands whose streams end with the context. It calls wake when the state of a command has changed.
func New(ctx context.Context, exec Executor, wake func(phase.ID)) *Commands {
	return &Commands{ctx: ctx, exec: exec, wake: wake, process: string(uuid.NewUUID()), known: map[phase.ID]*command{}}
}

// Intent returns the intent of a command that this process runs.
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
		observed := known.observed
		if observed.State == phase.Running {
			observed.Waiting = known.waiting()
		}
		return observed, nil
	}
}

// Run starts the command of the call in the containers, unless it was started before, and returns its state.
func (c *Commands) Run(call phase.Call, in []Container, argv []string) (phase.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed, err := c.poll(call)
	if err != nil || observed.State != phase.Idle {
		return observed, err
	}
	ctx, stop := context.WithCancel(c.ctx)
	started := &command{stop: stop, observed: phase.Observation{State: phase.Running}, in: in, unopened: map[int]string{}}
	c.known[call.ID] = started
	c.tasks.Go(func() {
		defer stop()
		c.end(ctx, call.ID, started, c.runAll(ctx, call.ID, started, argv))
	})
	observed = started.observed
	observed.Waiting = started.waiting()
	return observed, nil
}

// noteStream remembers why the stream to a container is not open; "" if it is open.
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

// end records the result of a command.
func (c *Commands) end(ctx context.Context, id phase.ID, ended *command, result phase.Observation) {
	c.mu.Lock()
	if ctx.Err() != nil {
		result = phase.Observation{State: phase.Stopped}
	}
	ended.observed = result
	c.mu.Unlock()
	c.wake(id)
}

// Cancel implements phase.Function: it closes the streams, or forgets the command when they are closed.
func (c *Commands) Cancel(ctx context.Context, call phase.Call) error { return c.Remove(ctx, call.ID) }

// Remove does what Cancel does.
func (c *Commands) Remove(_ context.Context, id phase.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[id]
	switch {
	case known == nil:
	case known.observed.State == phase.Running:
		known.stop()
	default:
		delete(c.known, id)
	}
	return nil
}

// Found returns the phases of an ActionSet that have a command.
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

// Wait returns when the context has ended and all streams are closed.
func (c *Commands) Wait() {
	<-c.ctx.Done()
	// A caller of Run that checked the context before its end has added its task when the lock is free.
	c.mu.Lock()
	//lint:ignore SA2001 The lock is only awaited.
	c.mu.Unlock()
	c.tasks.Wait()
}

// runAll runs the command in all containers concurrently. Outputs and failures are merged in the order of the containers.
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

// runIn runs the command in one container. It retries only if the command cannot have begun. It calls unopened with the reason, and with ""
// when the command has begun.
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
			logger.Info("Failed to start a command, retrying", "err", readable(err), "retryAfter", delay)
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

// execFailure returns a *Failure with the text of Kanister. It includes the last lines if the command has ended, or has printed something.
func execFailure(err error, printed *output) error {
	text := strings.TrimSuffix(readable(err), ".")
	stdout, stderr := printed.stdout.String(), printed.stderr.String()
	if errors.As(err, new(exec.CodeExitError)) || stdout != "" || stderr != "" {
		return phase.Failf("Failed to exec command in pod: %s.\nstdout: %s\nstderr: %s", text, stdout, stderr)
	}
	return phase.Failf("Failed to exec command in pod: %s", text)
}
