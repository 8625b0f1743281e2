// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

var (
	machinesResource = v1alpha1.Resource("machines").WithVersion("v1alpha1")
	switchesResource = v1alpha1.Resource("switches").WithVersion("v1alpha1")
)

// change is one object as the API server left it, or as it was when it was deleted.
type change struct {
	resource string
	object   metav1.Object
	deleted  bool
	at       time.Time
}

// apiServer behaves as the API server does in the namespace default where the controller relies on it and fakes do not: UIDs,
// resourceVersions and their conflicts, generations, the status subresource, finalizers, and a history that watches and
// caches follow at their own pace.
type apiServer struct {
	t *testing.T

	mu       sync.Mutex
	version  int
	machines map[string]*v1alpha1.Machine
	switches map[string]*v1alpha1.Switch
	history  []change
	changed  chan struct{} // closed and made anew whenever history grows or a watch thaws
	frozen   map[string]bool

	requests []string
	events   []string
	fail     func(request string) error // instead of the request
	lose     func(request string) error // instead of the answer
	flips    []flipped
}

// flipped is a Switch that a controller has moved down.
type flipped struct {
	machine, name string
	seenAt, at    time.Time
}

func newAPIServer(t *testing.T) *apiServer {
	return &apiServer{
		t: t, version: 1000, machines: map[string]*v1alpha1.Machine{}, switches: map[string]*v1alpha1.Switch{},
		changed: make(chan struct{}), frozen: map[string]bool{},
		fail: func(string) error { return nil }, lose: func(string) error { return nil },
	}
}

// serve answers a request of a controller, and writes it down.
func (a *apiServer) serve(action clienttesting.Action) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	request := requestText(action)
	if action.GetResource().Resource == "events" {
		a.events = append(a.events, request)
		return &corev1.Event{}, nil
	}
	if err := a.fail(request); err != nil {
		a.requests = append(a.requests, request+": "+err.Error())
		return nil, err
	}
	a.requests = append(a.requests, request)
	object, err := a.do(action)
	if err != nil {
		a.requests[len(a.requests)-1] += ": " + string(apierrors.ReasonForError(err))
		return nil, err
	}
	return object, a.lose(request)
}

func (a *apiServer) do(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		return a.createSwitch(action.GetObject().(*v1alpha1.Switch))
	case clienttesting.UpdateActionImpl:
		if action.GetSubresource() != "status" {
			break
		}
		switch object := action.GetObject().(type) {
		case *v1alpha1.Machine:
			return a.changeMachine(object.Name, object.UID, object.ResourceVersion, func(m *v1alpha1.Machine) { m.Status = object.Status })
		case *v1alpha1.Switch:
			return a.changeSwitch(object.Name, object.UID, object.ResourceVersion, func(sw *v1alpha1.Switch) { sw.Status = object.Status })
		}
	case clienttesting.GetActionImpl:
		if action.GetResource() == machinesResource {
			return a.getMachine(action.GetName())
		}
		return a.getSwitch(action.GetName())
	case clienttesting.DeleteActionImpl:
		var uid types.UID
		if p := action.GetDeleteOptions().Preconditions; p != nil && p.UID != nil {
			uid = *p.UID
		}
		return nil, a.deleteSwitch(action.GetName(), uid)
	case clienttesting.PatchActionImpl:
		return a.patch(action.GetName(), action.GetResource().Resource, decodePatch(action))
	}
	a.t.Errorf("unexpected request: %v", action)
	return nil, errors.New("not served")
}

func (a *apiServer) patch(name, resource string, patch decodedPatch) (runtime.Object, error) {
	uid, version := patch.Metadata.UID, patch.Metadata.ResourceVersion
	if resource == "machines" {
		return a.changeMachine(name, uid, version, func(m *v1alpha1.Machine) { m.Spec.SwitchPosition = patch.Spec["switchPosition"] })
	}
	var before v1alpha1.Switch
	after, err := a.changeSwitch(name, uid, version, func(sw *v1alpha1.Switch) {
		before = *sw.DeepCopy()
		if patch.Metadata.OwnerReferences != nil {
			sw.OwnerReferences = *patch.Metadata.OwnerReferences
		}
		if position, ok := patch.Spec["position"]; ok {
			sw.Spec.Position = position
		}
	})
	if err == nil && isUp(&before) && !isUp(after) {
		a.flips = append(a.flips, flipped{metav1.GetControllerOf(&before).Name, name, before.Status.SeenAt.Time, time.Now()})
	}
	return after, err
}

func (a *apiServer) getMachine(name string) (*v1alpha1.Machine, error) {
	if machine := a.machines[name]; machine != nil {
		return machine.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(machinesResource.GroupResource(), name)
}

func (a *apiServer) getSwitch(name string) (*v1alpha1.Switch, error) {
	if sw := a.switches[name]; sw != nil {
		return sw.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(switchesResource.GroupResource(), name)
}

func (a *apiServer) changeMachine(name string, uid types.UID, version string, do func(*v1alpha1.Machine)) (*v1alpha1.Machine, error) {
	machine, err := a.getMachine(name)
	if err != nil {
		return nil, err
	}
	if err := preconditions(machine, uid, version); err != nil {
		return nil, err
	}
	before := machine.DeepCopy()
	do(machine)
	if !equality.Semantic.DeepEqual(before, machine) {
		if !equality.Semantic.DeepEqual(before.Spec, machine.Spec) {
			machine.Generation++
		}
		a.store("machines", machine, false)
	}
	return machine.DeepCopy(), nil
}

func (a *apiServer) changeSwitch(name string, uid types.UID, version string, do func(*v1alpha1.Switch)) (*v1alpha1.Switch, error) {
	sw, err := a.getSwitch(name)
	if err != nil {
		return nil, err
	}
	if err := preconditions(sw, uid, version); err != nil {
		return nil, err
	}
	before := sw.DeepCopy()
	do(sw)
	if !equality.Semantic.DeepEqual(before, sw) {
		if before.Spec != sw.Spec {
			sw.Generation++
		}
		a.store("switches", sw, false)
	}
	return sw.DeepCopy(), nil
}

func preconditions(object metav1.Object, uid types.UID, version string) error {
	if uid != "" && uid != object.GetUID() || version != "" && version != object.GetResourceVersion() {
		return apierrors.NewConflict(switchesResource.GroupResource(), object.GetName(), errors.New("the object has been modified"))
	}
	return nil
}

func (a *apiServer) createSwitch(sw *v1alpha1.Switch) (*v1alpha1.Switch, error) {
	if a.switches[sw.Name] != nil {
		return nil, apierrors.NewAlreadyExists(switchesResource.GroupResource(), sw.Name)
	}
	sw = sw.DeepCopy()
	sw.UID, sw.Generation, sw.CreationTimestamp = types.UID(fmt.Sprint("uid-", a.version)), 1, metav1.NewTime(time.Now().Truncate(time.Second))
	a.store("switches", sw, false)
	return sw.DeepCopy(), nil
}

func (a *apiServer) deleteSwitch(name string, uid types.UID) error {
	sw, err := a.getSwitch(name)
	if err != nil {
		return err
	}
	if err := preconditions(sw, uid, ""); err != nil {
		return err
	}
	if len(sw.Finalizers) > 0 {
		now := metav1.Now()
		sw.DeletionTimestamp = &now
	}
	a.store("switches", sw, len(sw.Finalizers) == 0)
	return nil
}

// store makes a new version of the object.
func (a *apiServer) store(resource string, object metav1.Object, deleted bool) {
	a.version++
	object.SetResourceVersion(strconv.Itoa(a.version))
	switch object := object.(type) {
	case *v1alpha1.Machine:
		if a.machines[object.Name] = object; deleted {
			delete(a.machines, object.Name)
		}
	case *v1alpha1.Switch:
		if a.switches[object.Name] = object; deleted {
			delete(a.switches, object.Name)
		}
	}
	a.history = append(a.history, change{resource, object, deleted, time.Now()})
	a.wake()
}

func (a *apiServer) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}
