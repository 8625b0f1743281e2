// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
)

// The bubbles begin at midnight: a Switch that is flipped at once is moved down at 00:00:05.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t)) })
}

// What users do; none of it is written down as a request.

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// apply creates a Machine, now.
func (a *apiServer) apply(machine *v1alpha1.Machine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	machine.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	a.store("machines", machine, false)
}

// edit changes a Machine.
func (a *apiServer) edit(name string, change func(*v1alpha1.Machine)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.changeMachine(name, "", "", change)
	a.must(err)
}

func (a *apiServer) scale(name string, switches int32) {
	a.edit(name, func(m *v1alpha1.Machine) { m.Spec.Switches = switches })
}

// remove a Machine at once; its switches stay, as they do before the garbage collector comes.
func (a *apiServer) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	machine, err := a.getMachine(name)
	a.must(err)
	a.store("machines", machine, true)
}

// make is a Switch that somebody makes by hand.
func (a *apiServer) make(sw *v1alpha1.Switch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.createSwitch(sw)
	a.must(err)
}

// change a Switch.
func (a *apiServer) change(name string, change func(*v1alpha1.Switch)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.changeSwitch(name, "", "", change)
	a.must(err)
}

func (a *apiServer) flip(name, position string) {
	a.change(name, func(sw *v1alpha1.Switch) { sw.Spec.Position = position })
}

func (a *apiServer) label(name string, set map[string]string) {
	a.change(name, func(sw *v1alpha1.Switch) { sw.Labels = set })
}

// erase a Switch, with its finalizers.
func (a *apiServer) erase(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sw, err := a.getSwitch(name)
	a.must(err)
	a.store("switches", sw, true)
}

func (a *apiServer) machine(name string) *v1alpha1.Machine {
	a.mu.Lock()
	defer a.mu.Unlock()
	machine, err := a.getMachine(name)
	a.must(err)
	return machine
}

func (a *apiServer) theSwitch(name string) *v1alpha1.Switch {
	a.mu.Lock()
	defer a.mu.Unlock()
	sw, err := a.getSwitch(name)
	a.must(err)
	return sw
}

// ownedBy are the names of the switches that the Machine of that UID controls.
func (a *apiServer) ownedBy(uid types.UID) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sw := range a.switches {
		if owner := metav1.GetControllerOf(sw); owner != nil && owner.UID == uid {
			names = append(names, sw.Name)
		}
	}
	slices.Sort(names)
	return names
}

// took returns what was asked for since it was last called, once all is quiet: the requests, then the events. Creates and
// deletes that went out at once are in the order of their names.
func (a *apiServer) took() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := append(a.requests, a.events...)
	a.requests, a.events = nil, nil
	for i := 0; i < len(lines); {
		j := i
		for verb := word(lines[i]); j < len(lines) && word(lines[j]) == verb && verb != "status" && verb != "event"; {
			j++
		}
		slices.Sort(lines[i:j])
		i = max(j, i+1)
	}
	return slices.Clip(lines)
}

func word(line string) (first string) {
	_, _ = fmt.Sscan(line, &first)
	return first
}

// wants compares what was asked for since the last time.
func (a *apiServer) wants(what string, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.took()); diff != "" {
		a.t.Errorf("requests, %s (-want +got):\n%s", what, diff)
	}
}

// operate runs the controller, until stop or the end of the test, as the manager does.
func (a *apiServer) operate() (stop func(), logged func() ktesting.Log) {
	logger := ktesting.NewLogger(a.t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(a.t.Context(), logger))
	client := a.client(a.serve)
	factory := externalversions.NewSharedInformerFactory(client, 0)
	recorder := controller.StartEvents(ctx, a.eventClient()).Recorder(scheme.Scheme, ControllerName)
	useless := factory.Useless().V1alpha1()
	c, err := New(ctx, client, useless.Machines(), useless.Switches(), recorder)
	a.must(err)
	factory.StartWithContext(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx, 2)
		factory.Shutdown()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	a.t.Cleanup(stop)
	return stop, logger.GetSink().(ktesting.Underlier).GetBuffer().Data
}
