// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millwright.dev/pkg/controller"
)

// troubled is a controller that cannot work though its caches are filled.
type troubled struct {
	*toy
	trouble error
}

func (t *troubled) Ready() error { return t.trouble }

func TestBlockedControllerIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built := &troubled{toy: &toy{name: "foo"}, trouble: errors.New("no status subresource")}
		d := built.descriptor()
		d.New = func(context.Context, *Context) (controller.Controller, error) { return built, nil }
		p := newProcess(t, newFakeCluster(), d)
		shared, err := newShared(p.ctx, p.config, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		group := newGroup([]Descriptor{d}, shared)
		working, stop := context.WithCancel(p.ctx)
		elected := make(chan struct{})
		close(elected)
		group.start(working, p.ctx, elected, 1, func(err error) { t.Error(err) })
		time.Sleep(time.Second)
		synctest.Wait()
		check := group.checks()[0]
		if err := check.Check(nil); err == nil || err.Error() != "no status subresource" {
			t.Errorf("readyz answers %v", err)
		}
		built.trouble = nil
		if err := check.Check(nil); err != nil {
			t.Errorf("when the trouble is over readyz answers %v", err)
		}
		stop()
		if hanging := group.join(p.ctx, time.Minute); len(hanging) > 0 {
			t.Errorf("%q hang", hanging)
		}
		p.stop(nil)
		shared.joinInformers(p.ctx)
	})
}
