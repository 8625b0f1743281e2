// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
)

// observe returns what is observed of a Machine with these switches, at noon.
func observe(machine *v1alpha1.Machine, switches ...*v1alpha1.Switch) *observed {
	o := &observed{machine: machine, taken: sets.New[string](), switchesVersion: "100", now: noon}
	var err error
	if o.selector, err = parseSelector(machine); err != nil {
		o.invalid = err.Error()
	}
	for _, sw := range switches {
		if flip := machine.Status.Flip; flip != nil && flip.UID == sw.UID {
			o.reserved = sw
		}
		if metav1.GetControllerOf(sw) == nil {
			o.orphans = append(o.orphans, sw)
			continue
		}
		o.put(sw)
	}
	return o
}

// world is a controller whose caches have seen all that the fake API server has, whenever it syncs.
type world struct {
	*apiServer
	controller *Controller
	position   int // in the history
	recorded   <-chan string
	// unseen are the switches whose changes the caches see after the first sync.
	unseen []string
}

// newWorld returns a world with a Machine and its switches, at noon. It has to be called in a bubble. The API server gives out the
// resourceVersions: a reservation stays older than, as old as, or newer than what the cache has of its Switch.
func newWorld(t *testing.T, machine *v1alpha1.Machine, owned ...*v1alpha1.Switch) *world {
	time.Sleep(time.Until(noon))
	recorder := record.NewFakeRecorder(100)
	w := &world{apiServer: newAPIServer(t), recorded: recorder.Events}
	w.controller = newControllerWithCaches(w.client(w.Do), recorder)
	machine = machine.DeepCopy()
	for _, sw := range owned {
		w.apiServer.switches.Create(sw)
		w.controller.observe(t, w.theSwitch(sw.Name), false)
		if flip := machine.Status.Flip; flip != nil && flip.UID == sw.UID {
			flip.ResourceVersion = w.reserve(sw, flip.ResourceVersion)
		}
	}
	w.apiServer.machines.Create(machine)
	w.position = len(w.History())
	version := strconv.FormatInt(w.Version(), 10)
	w.must(w.controller.machines.Replace([]any{w.machine(machine.Name)}, version))
	w.must(w.controller.switches.Replace(w.controller.switches.List(), version))
	return w
}

// newControllerWithCaches returns a controller without informers: its caches see what observe shows them.
func newControllerWithCaches(client versioned.Interface, recorder record.EventRecorder) *Controller {
	ofMachines := machineIndexers()
	ofMachines[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc // as the informer has it
	return newController(client, recorder,
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, ofMachines), cache.NewIndexer(cache.MetaNamespaceKeyFunc, switchIndexers()))
}

// observe shows the caches a Machine or a Switch, or that it is gone. It returns the names of the Machines that this queues.
func (c *Controller) observe(t *testing.T, object any, isGone bool) []string {
	t.Helper()
	if machine, isMachine := object.(*v1alpha1.Machine); isMachine {
		return c.queued(t, show(t, c.machines, machine, isGone, c.machineChanged))
	}
	sw := object.(*v1alpha1.Switch)
	if isGone {
		c.memory.stopDeleting(sw.UID)
	}
	return c.queued(t, show(t, c.switches, sw, isGone, c.switchChanged))
}

// show changes a cache, and returns the keys that this queues.
func show[T any](t *testing.T, indexer cache.Indexer, object *T, isGone bool,
	changed func(_ context.Context, before, after *T) []cache.ObjectName) []cache.ObjectName {
	t.Helper()
	known, exists, err := indexer.Get(object)
	if err != nil {
		t.Fatal(err)
	}
	var before *T
	if exists {
		before = known.(*T)
	}
	change := indexer.Update
	if isGone {
		change = indexer.Delete
	}
	if err := change(object); err != nil {
		t.Fatal(err)
	}
	switch {
	case !isGone:
		return changed(t.Context(), before, object)
	case before != nil:
		return changed(t.Context(), before, nil)
	default:
		return nil
	}
}

// reserve returns the version of a reservation of the Switch, which compares with that of the API server as the given version does. A cache
// that is older than the reservation is stale: it has not seen two changes of the Switch.
func (w *world) reserve(sw *v1alpha1.Switch, version string) string {
	current := w.theSwitch(sw.Name).ResourceVersion
	switch {
	case isNewer(sw.ResourceVersion, version):
		return strconv.FormatInt(w.Version()-1, 10)
	case sw.ResourceVersion == version:
		return current
	}
	note := func(text string) {
		w.change(sw.Name, func(sw *v1alpha1.Switch) { sw.Annotations = map[string]string{"note": text} })
	}
	note("reserved")
	reserved := w.theSwitch(sw.Name).ResourceVersion
	note("changed")
	w.unseen = append(w.unseen, sw.Name)
	return reserved
}

// sync runs one sync of the Machine and returns its requests and events; then it shows their effects to the caches.
func (w *world) sync() (requests []string, requeueAfter time.Duration, err error) {
	ctx := klog.NewContext(w.t.Context(), ktesting.NewLogger(w.t, ktesting.NewConfig(ktesting.Verbosity(0))))
	requeueAfter, err = w.controller.syncHandler(ctx, cache.NewObjectName("default", "m"))
	requests = w.took()
	for len(w.recorded) > 0 {
		requests = append(requests, "event "+<-w.recorded)
	}
	for _, name := range w.unseen {
		w.controller.observe(w.t, w.theSwitch(name), false)
	}
	w.unseen = nil
	history := w.History()
	for ; w.position < len(history); w.position++ {
		change := history[w.position]
		w.controller.observe(w.t, typed(change), change.Deleted)
	}
	return requests, requeueAfter, err
}

// describe returns a plan as lines.
func describe(o *observed) (lines []string) {
	p := decide(o)
	for _, ask := range p.Asks {
		lines = append(lines, "ask: "+ask.String())
	}
	for _, step := range p.Steps {
		s := step.(stage)
		for _, step := range s.steps {
			lines = append(lines, string(s.name)+": "+step.String())
		}
	}
	if p.Again {
		lines = append(lines, "decide again")
	}
	if p.RequeueAfter != 0 {
		lines = append(lines, "requeue after "+p.RequeueAfter.String())
	}
	return lines
}
