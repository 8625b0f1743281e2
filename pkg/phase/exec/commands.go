// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

const (
	// beginLimit is how long opening the stream of a command is retried if the command cannot have begun.
	beginLimit = 2 * time.Minute
	// beginDelay and maxBeginDelay are the first and the longest delay between these attempts.
	beginDelay, maxBeginDelay = 500 * time.Millisecond, 10 * time.Second
	// forgottenFor is how long it is remembered that a forgotten command has begun: longer than a cache is stale.
	forgottenFor = 10 * time.Minute
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
	// streams limits the first streams of commands, more the others, and large the commands with large outputs. The keys are namespaces.
	streams, more, large *inflight.Limit[string]

	mu    sync.Mutex
	known map[phase.ID]*command
	// forgotten are the commands that have begun and are not known any more, with the time since when.
	forgotten map[phase.ID]time.Time
	tasks     sync.WaitGroup
}

// commandIntent identifies the process that is about to run the command.
type commandIntent struct {
	Process string `json:"process"`
}

// New returns Commands whose streams end with the context. It calls wake when the state of a command has changed.
func New(ctx context.Context, exec Executor, wake func(phase.ID)) *Commands {
	return &Commands{
		ctx: ctx, exec: exec, wake: wake, process: string(uuid.NewUUID()), known: map[phase.ID]*command{}, forgotten: map[phase.ID]time.Time{},
		streams: inflight.NewMemoryLimit[string](maxCommands),
		more:    inflight.NewMemoryLimit[string](maxMoreStreams),
		large:   inflight.NewMemoryLimit[string](maxLarge),
	}
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
	case known == nil && !c.forgotten[call.ID].IsZero() && call.Cancelled:
		return phase.Observation{State: phase.Stopped}, nil
	case known == nil && !c.forgotten[call.ID].IsZero():
		return phase.Observation{}, nil // its end is recorded, and a stale cache does not show it yet
	case known == nil:
		return phase.Observation{State: phase.Idle}, nil
	default:
		observed := known.observed
		if observed.State == phase.Running {
			observed.Waiting = c.waiting(known)
		}
		return observed, nil
	}
}

// Run starts the command of the call in the containers, unless it was started before, and returns its state. If there is no stream, the command waits for
// one, and is idle when it has one: then Run has to be called again. So a command that waits is not in memory.
func (c *Commands) Run(call phase.Call, in []Container, argv []string) (phase.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed, err := c.poll(call)
	if err != nil || observed.State != phase.Idle {
		return observed, err
	}
	known := c.known[call.ID]
	if known == nil {
		known = c.add(call.ID)
	}
	if known.stream != nil {
		known.in, known.unopened, known.observed.State = in, map[int]string{}, phase.Running
		c.tasks.Go(func() { c.end(call.ID, known, c.runAll(call.ID, known, argv)) })
	}
	observed = known.observed
	observed.Waiting = c.waiting(known)
	return observed, nil
}

// add adds a command that has a stream, or waits for one.
func (c *Commands) add(id phase.ID) *command {
	added := &command{observed: phase.Observation{State: phase.Running}}
	added.ctx, added.stop = context.WithCancel(c.ctx)
	added.place = newPlace(c.large, id.Namespace, func(waits bool) { c.change(id, func() { added.waitsForPlace = waits }) })
	c.known[id] = added
	if release, ok := c.streams.TryAcquire(id.Namespace); ok {
		added.stream = release
		return added
	}
	c.tasks.Go(func() {
		release, err := c.streams.Acquire(added.ctx, id.Namespace)
		c.change(id, func() {
			added.stream, added.observed.State = release, phase.Idle
			if err != nil || added.ctx.Err() != nil {
				added.releaseStream()
				added.observed.State = phase.Stopped
			}
		})
	})
	return added
}

// change changes the state of a command.
func (c *Commands) change(id phase.ID, how func()) {
	c.mu.Lock()
	how()
	c.mu.Unlock()
	c.wake(id)
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
func (c *Commands) end(id phase.ID, ended *command, result phase.Observation) {
	c.change(id, func() {
		if ended.ctx.Err() != nil {
			result = phase.Observation{State: phase.Stopped}
		}
		ended.observed = result
		ended.releaseStream()
		ended.stop()
	})
}

// Cancel implements phase.Function: it closes the streams, or forgets the command when none is open.
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
		known.stop()
		known.releaseStream()
		known.place.release()
		delete(c.known, id)
		if known.in != nil {
			maps.DeleteFunc(c.forgotten, func(_ phase.ID, at time.Time) bool { return time.Since(at) > forgottenFor })
			c.forgotten[id] = time.Now()
		}
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

// runAll runs the command in all containers, concurrently as far as there are streams.
func (c *Commands) runAll(id phase.ID, of *command, argv []string) phase.Observation {
	found := blueprint.NewOutputs(of.ctx, of.place.take)
	var failed failures
	var begun atomic.Int32
	recruiting, allBegun := context.WithCancel(of.ctx)
	runInNext := func() {
		defer allBegun()
		for of.ctx.Err() == nil {
			i := int(begun.Add(1)) - 1
			if i >= len(of.in) {
				return
			}
			err := c.runIn(of.ctx, id, of.in[i], argv, func() *output { return newOutput(found, i) }, func(why string) { c.noteStream(id, of, i, why) })
			switch {
			case err == nil:
			case len(of.in) == 1:
				failed.add(i, err.Error())
			default:
				failed.add(i, fmt.Sprintf("Pod %s, container %s: %v", of.in[i].Pod, of.in[i].Name, err))
			}
		}
	}
	var workers sync.WaitGroup
	workers.Go(runInNext) // on the stream that the command has
	for range len(of.in) - 1 {
		release, err := c.more.Acquire(recruiting, id.Namespace)
		if err != nil {
			break
		}
		workers.Go(func() {
			defer release()
			runInNext()
		})
	}
	workers.Wait()
	if message := failed.String(); message != "" {
		return phase.Observation{State: phase.Failed, Message: message}
	}
	observed := phase.Observation{State: phase.Succeeded}
	if values := found.Values(); values != nil {
		observed.Output = make(map[string]any, len(values))
		for key, value := range values {
			observed.Output[key] = value
		}
	}
	return observed
}

// runIn runs the command in one container. It retries only if the command cannot have begun. It calls unopened with the reason, and with ""
// when the command has begun.
func (c *Commands) runIn(ctx context.Context, id phase.ID, in Container, argv []string, output func() *output, unopened func(why string)) error {
	ctx = whenOpened(ctx, func() { unopened("") })
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "actionSet", klog.KRef(id.Namespace, id.Name), "phase", id.String(),
		"pod", klog.KRef(in.Namespace, in.Pod), "container", in.Name)
	limit := time.Now().Add(beginLimit)
	for delay := beginDelay; ; delay = min(2*delay, maxBeginDelay) {
		printed := output()
		err := c.exec(ctx, in, argv, writer(printed.writeStdout), writer(printed.writeStderr))
		badOutput := printed.close()
		switch {
		case notStarted(err) && ctx.Err() == nil && time.Now().Add(delay).Before(limit):
			logger.Info("Failed to start a command, retrying", "err", readable(err), "retryAfter", delay)
			unopened(readable(err))
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		case err != nil:
			return execFailure(err, printed)
		default:
			return badOutput
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
