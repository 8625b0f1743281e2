// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/fakeapi"
)

// apiServer is the API server with the Machines and Switches of the namespace default.
type apiServer struct {
	*fakeapi.Server
	t        *testing.T
	machines fakeapi.Objects[v1alpha1.Machine]
	switches fakeapi.Objects[v1alpha1.Switch]

	mu    sync.Mutex
	flips []flipped
}

var (
	machines = fakeapi.Custom(v1alpha1.Resource("machines").WithVersion("v1alpha1"), &v1alpha1.Machine{})
	switches = fakeapi.Custom(v1alpha1.Resource("switches").WithVersion("v1alpha1"), &v1alpha1.Switch{})
)

// flipped is a Switch that a controller has moved down.
type flipped struct {
	machine, name string
	seenAt, at    time.Time
}

func newAPIServer(t *testing.T) *apiServer {
	server := fakeapi.New(t, machines, switches)
	a := &apiServer{Server: server, t: t, machines: fakeapi.Of[v1alpha1.Machine](server, machines), switches: fakeapi.Of[v1alpha1.Switch](server, switches)}
	a.Log(func(r *fakeapi.Request) string {
		switch line := requestText(r); {
		case r.Scripted != nil:
			return line + ": " + r.Scripted.Error()
		case r.Err != nil:
			return line + ": " + string(apierrors.ReasonForError(r.Err))
		default:
			return line
		}
	})
	a.OnWrite(a.recordFlip)
	return a
}

func (a *apiServer) recordFlip(r *fakeapi.Request) {
	if r.Resource != switches.GroupVersionResource || r.Verb != "patch" {
		return
	}
	before, after := fakeapi.As[v1alpha1.Switch](r.Before), fakeapi.As[v1alpha1.Switch](r.After)
	if isUp(before) && !isUp(after) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.flips = append(a.flips, flipped{metav1.GetControllerOf(before).Name, r.Name, before.Status.SeenAt.Time, time.Now()})
	}
}

// failIf makes requests fail by the text that they have in the log.
func (a *apiServer) failIf(fail func(request string) error) {
	a.FailIf(func(r *fakeapi.Request) error { return fail(requestText(r)) })
}

// client is one of Machines and Switches.
func (a *apiServer) client(via func(*fakeapi.Request) (*http.Response, error)) versioned.Interface {
	client, err := versioned.NewForConfig(a.ConfigVia(via))
	a.must(err)
	return client
}

// inBubble runs a test in a bubble, which begins at midnight: a Switch that is flipped immediately is moved down at 00:00:05.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t)) })
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// What users do; none of it is logged as a request.

// apply creates a Machine, now.
func (a *apiServer) apply(machine *v1alpha1.Machine) {
	machine = machine.DeepCopy()
	machine.CreationTimestamp = metav1.Time{}
	a.machines.Create(machine)
}

// edit changes a Machine.
func (a *apiServer) edit(name string, change func(*v1alpha1.Machine)) {
	a.machines.Update("default", name, change)
}

func (a *apiServer) scale(name string, switches int32) {
	a.edit(name, func(m *v1alpha1.Machine) { m.Spec.Switches = switches })
}

// remove a Machine; its switches stay, as they do before the garbage collector comes.
func (a *apiServer) remove(name string) { a.machines.Remove("default", name) }

// make creates a Switch by hand, now.
func (a *apiServer) make(sw *v1alpha1.Switch) {
	sw = sw.DeepCopy()
	sw.UID, sw.Generation, sw.CreationTimestamp = "", 1, metav1.Time{}
	a.switches.Create(sw)
}

// change a Switch.
func (a *apiServer) change(name string, change func(*v1alpha1.Switch)) {
	a.switches.Update("default", name, change)
}

func (a *apiServer) flip(name, position string) {
	a.change(name, func(sw *v1alpha1.Switch) { sw.Spec.Position = position })
}

func (a *apiServer) label(name string, set map[string]string) {
	a.change(name, func(sw *v1alpha1.Switch) { sw.Labels = set })
}

// erase a Switch, with its finalizers.
func (a *apiServer) erase(name string) { a.switches.Remove("default", name) }

func (a *apiServer) machine(name string) *v1alpha1.Machine { return a.machines.Get("default", name) }

func (a *apiServer) theSwitch(name string) *v1alpha1.Switch { return a.switches.Get("default", name) }

// ownedBy are the names of the switches that the Machine of that UID controls.
func (a *apiServer) ownedBy(uid types.UID) (names []string) {
	for _, sw := range a.switches.List() {
		if owner := metav1.GetControllerOf(sw); owner != nil && owner.UID == uid {
			names = append(names, sw.Name)
		}
	}
	return names
}

// took returns what was asked for since it was last called, once all is quiet: the requests, then the events. Concurrent creates and
// deletes are in the order of their names.
func (a *apiServer) took() []string {
	synctest.Wait()
	requests, events := a.TakeLog()
	lines := append(requests, events...)
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
	client := a.client(a.Do)
	factory := externalversions.NewSharedInformerFactory(client, 0)
	recorder := controller.StartEvents(ctx, kubernetes.NewForConfigOrDie(a.Config())).Recorder(scheme.Scheme, ControllerName)
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
