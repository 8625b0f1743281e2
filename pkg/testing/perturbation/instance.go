// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
)

// instance is one run of the controller, from its start to its kill.
type instance struct {
	proxy *proxy
	done  chan struct{}
	err   error
}

// startInstance starts the next instance of the controller. All its requests go through its proxy.
func (r *run) startInstance(ctx context.Context) {
	r.started++
	alive, kill := context.WithCancel(ctx)
	r.instance = &instance{
		proxy: &proxy{run: r, instance: r.started, next: r.transport, alive: alive, kill: kill, past: r.nextPast},
		done:  make(chan struct{}),
	}
	r.nextPast = nil
	config := &rest.Config{
		Host:          r.user.Config.Host,
		Transport:     r.instance.proxy,
		QPS:           -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}, // the proxy reads names from bodies
	}
	r.history.add("#%d starts", r.started)
	go func(i *instance) {
		defer close(i.done)
		i.err = r.scenario.Start(alive, config, r.user.Namespace)
	}(r.instance)
}

// stopInstance kills the running instance and waits for its end.
func (r *run) stopInstance() {
	r.instance.proxy.kill()
	<-r.instance.done
}

// revive starts another instance if the last one was killed. It returns an error if the last one ended by itself.
func (r *run) revive(ctx context.Context) error {
	// Whether it has ended is asked before whether it was killed: otherwise a kill between the two would be taken for an end by itself.
	ended := false
	select {
	case <-r.instance.done:
		ended = true
	default:
	}
	switch {
	case r.instance.proxy.alive.Err() != nil:
		<-r.instance.done
		r.history.wrote() // restarts the quiet time
		r.startInstance(ctx)
	case ended && r.instance.err != nil:
		return fmt.Errorf("the controller ended by itself: %w", r.instance.err)
	case ended:
		return errors.New("the controller ended by itself, without an error")
	}
	return nil
}
