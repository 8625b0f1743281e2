// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
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
	w.controller = &Controller{
		client:   w.client(w.Do),
		recorder: recorder,
		machines: cache.NewIndexer(cache.MetaNamespaceKeyFunc, machineIndexers()),
		switches: cache.NewIndexer(cache.MetaNamespaceKeyFunc, switchIndexers()),
	}
	machine = machine.DeepCopy()
	var cached []any
	for _, sw := range owned {
		w.apiServer.switches.Create(sw)
		cached = append(cached, w.theSwitch(sw.Name))
		if flip := machine.Status.Flip; flip != nil && flip.UID == sw.UID {
			flip.ResourceVersion = w.reserve(sw, flip.ResourceVersion)
		}
	}
	w.apiServer.machines.Create(machine)
	w.position = len(w.History())
	version := strconv.FormatInt(w.Version(), 10)
	w.must(w.controller.machines.Replace([]any{w.machine(machine.Name)}, version))
	w.must(w.controller.switches.Replace(cached, version))
	return w
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
		w.must(w.controller.switches.Update(w.theSwitch(name)))
	}
	w.unseen = nil
	history := w.History()
	for ; w.position < len(history); w.position++ {
		change := history[w.position]
		indexer := w.controller.machines
		if change.Resource == switches.GroupVersionResource {
			indexer = w.controller.switches
		}
		if change.Deleted {
			w.must(indexer.Delete(typed(change)))
			w.controller.memory.stopDeleting(change.Object.GetUID())
		} else {
			w.must(indexer.Update(typed(change)))
		}
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
