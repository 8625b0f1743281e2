// Package supervise runs the parts of one process: each in a goroutine and with a context of its own, so that they can be
// stopped one after the other, the latest first.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Group is a set of running parts. The zero value is not usable; see New. Go and Stop are called from one goroutine.
type Group struct {
	ended func(error)
	parts []*part
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// errEnded is the error of a part that returned nil although it was not stopped.
var errEnded = errors.New("ended without an error")

// New makes a group that calls ended with an error that names the part when a part ends without having been stopped. It may
// be called several times and from several goroutines; a context.CancelCauseFunc is made for it.
func New(ended func(error)) *Group {
	return &Group{ended: ended}
}

// Go starts a part. The values of ctx are handed on, its cancellation is not: only Stop ends parts, in their order.
func (g *Group) Go(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	g.parts = append(g.parts, p)
	go func() {
		defer close(p.done)
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		g.ended(fmt.Errorf("%s: %w", name, err))
	}()
}

// Stop stops the parts, the latest first, each after the one before it has ended. After the timeout the remaining parts are
// stopped too but no longer waited for; the error names those that still run.
func (g *Group) Stop(timeout time.Duration) error {
	expired := time.After(timeout)
	var hanging []error
	for i := len(g.parts) - 1; i >= 0; i-- {
		p := g.parts[i]
		p.cancel()
		if len(hanging) > 0 {
			hanging = append(hanging, p.stillRunning())
			continue
		}
		select {
		case <-p.done:
		case <-expired:
			hanging = append(hanging, fmt.Errorf("%s did not end within %v", p.name, timeout))
		}
	}
	return errors.Join(hanging...)
}

// StopOnly stops the part of that name, if there is one, and leaves the others running. It returns an error if the part still runs
// after the timeout.
func (g *Group) StopOnly(name string, timeout time.Duration) error {
	for _, p := range g.parts {
		if p.name != name {
			continue
		}
		p.cancel()
		select {
		case <-p.done:
		case <-time.After(timeout):
			return fmt.Errorf("%s did not end within %v", name, timeout)
		}
	}
	return nil
}

// stillRunning returns nil when the part has ended.
func (p *part) stillRunning() error {
	select {
	case <-p.done:
		return nil
	default:
		return fmt.Errorf("%s was not waited for", p.name)
	}
}
