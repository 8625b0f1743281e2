// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/fake"
	uselessv1alpha1 "millwright.dev/pkg/generated/clientset/versioned/typed/useless/v1alpha1"
)

// freeClient is a fake client that carries out requests at the same time: the lock of a fake one spans the request.
type freeClient struct {
	versioned.Interface
	another func() *fake.Clientset
}

func (c freeClient) UselessV1alpha1() uselessv1alpha1.UselessV1alpha1Interface {
	return c.another().UselessV1alpha1()
}

// IsWatchListSemanticsUnSupported tells the reflectors what kind of watch they get, as the fake client does.
func (c freeClient) IsWatchListSemanticsUnSupported() bool { return true }

// client returns a client whose requests are answered by serve, and whose lists and watches follow the history.
func (a *apiServer) client(serve func(clienttesting.Action) (runtime.Object, error)) versioned.Interface {
	return freeClient{another: func() *fake.Clientset { return a.oneClient(serve) }}
}

func (a *apiServer) oneClient(serve func(clienttesting.Action) (runtime.Object, error)) *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == "list" {
			return true, a.list(action.GetResource().Resource), nil
		}
		object, err := serve(action)
		if err != nil {
			object = none(action)
		}
		return true, object, err
	})
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		after, err := strconv.Atoi(action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		return true, a.watch(action.GetResource().Resource, after), err
	})
	return client
}

// none is what the client gets beside an error: an empty object, as from the API server.
func none(action clienttesting.Action) runtime.Object {
	if action.GetResource().Resource == "machines" {
		return &v1alpha1.Machine{}
	}
	return &v1alpha1.Switch{}
}

// eventClient returns a client that takes events.
func (a *apiServer) eventClient() *kubefake.Clientset {
	client := &kubefake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := a.serve(action)
		return true, object, err
	})
	return client
}

func (a *apiServer) list(resource string) runtime.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}
	if resource == "machines" {
		list := &v1alpha1.MachineList{ListMeta: meta}
		for _, machine := range a.machines {
			list.Items = append(list.Items, *machine.DeepCopy())
		}
		return list
	}
	list := &v1alpha1.SwitchList{ListMeta: meta}
	for _, sw := range a.switches {
		list.Items = append(list.Items, *sw.DeepCopy())
	}
	return list
}

// feed is a watch.
type feed struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (f *feed) Stop()                          { f.once.Do(func() { close(f.stopped) }) }
func (f *feed) ResultChan() <-chan watch.Event { return f.events }

// watch shows what changes after the version.
func (a *apiServer) watch(resource string, after int) *feed {
	f := &feed{events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(f.events)
		seen := map[string]bool{}
		for next := 0; ; {
			a.mu.Lock()
			changed := a.changed
			waits := a.frozen[resource] || next == len(a.history)
			var c change
			if !waits {
				c = a.history[next]
				next++
			}
			a.mu.Unlock()
			if waits {
				select {
				case <-changed:
				case <-f.stopped:
					return
				}
				continue
			}
			if c.resource != resource {
				continue
			}
			event := watch.Event{Type: watch.Modified, Object: c.object.(runtime.Object).DeepCopyObject()}
			switch name := c.object.GetName(); {
			case c.deleted:
				event.Type = watch.Deleted
				delete(seen, name)
			case !seen[name]:
				event.Type = watch.Added
				seen[name] = true
			}
			if version, _ := strconv.Atoi(c.object.GetResourceVersion()); version <= after {
				continue
			}
			select {
			case f.events <- event:
			case <-f.stopped:
				return
			}
		}
	}()
	return f
}

// freeze holds back the events of the resource.
func (a *apiServer) freeze(resource string) { a.setFrozen(resource, true) }

// thaw lets them through.
func (a *apiServer) thaw(resource string) { a.setFrozen(resource, false) }

func (a *apiServer) setFrozen(resource string, frozen bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen[resource] = frozen
	a.wake()
}
