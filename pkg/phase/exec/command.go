// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"fmt"

	"millwright.dev/pkg/phase"
)

// The limits of all commands of a process with the memory limit of the shipped Deployment; see [inflight.NewMemoryLimit]. A stream takes about 1 MiB of
// memory, most of it for the compression of headers.
const (
	// maxCommands is the maximum number of commands that run: each has one stream until it has ended.
	maxCommands = 80
	// maxMoreStreams is the maximum number of the other streams of commands that run in several containers. So such commands do not keep others from running.
	maxMoreStreams = 52
	// maxLarge is the maximum number of commands that have large outputs: more than 32 KiB, and up to 512 KiB and one line of 1.5 MiB that is being read.
	maxLarge = 12
)

// command is the command of one phase, in one or more containers.
type command struct {
	// ctx ends the streams.
	ctx  context.Context
	stop context.CancelFunc
	// observed is the state: Running while the command waits for a stream, Idle when it has one and can be started, then Running, then the result.
	observed phase.Observation
	// stream releases the first stream. The command has it until it has ended, so that it can open one stream after another. It is nil while the command
	// waits for it, and after the end.
	stream func()
	// place is for the outputs.
	place *place
	// in are the containers; nil before the start.
	in []Container
	// unopened is why streams are not open, by the index of the container.
	unopened map[int]string
	// waitsForPlace: what the command prints is not read.
	waitsForPlace bool
}

// waiting returns what a command waits for.
func (c *Commands) waiting(of *command) phase.Waiting {
	switch {
	case of.in == nil:
		ofNamespace, total := c.streams.Numbers()
		return phase.Waiting{
			For:     "other commands to end, so that there is a stream for this one",
			Details: fmt.Sprintf("%d commands run at a time, %d of them for the ActionSets of one namespace", total, ofNamespace),
		}
	case of.waitsForPlace:
		ofNamespace, total := c.large.Numbers()
		return phase.Waiting{
			For: "other commands with large outputs to end, so that those of the command can be read",
			Details: fmt.Sprintf("%d commands at a time may have outputs of more than 32 KiB, %d of them for the ActionSets of one namespace",
				total, ofNamespace),
		}
	default:
		return of.waiting()
	}
}

// waiting returns what the command waits for, if it has begun.
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

// releaseStream releases the first stream, unless it was released before.
func (c *command) releaseStream() {
	if c.stream != nil {
		c.stream()
		c.stream = nil
	}
}
