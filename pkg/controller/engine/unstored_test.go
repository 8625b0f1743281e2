// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

const (
	statusWrite    = "update compositecontrollers/status cc"
	finalizerWrite = "patch compositecontrollers cc"
)

// define has the API server store only these fields of the status, all of them if there are none.
func (h *host) define(fields ...string) {
	resource := ccResource
	resource.Admit = func(_, object *unstructured.Unstructured) error {
		status, _, _ := unstructured.NestedMap(object.Object, "status")
		for field := range status {
			if len(fields) > 0 && !slices.Contains(fields, field) {
				unstructured.RemoveNestedField(object.Object, "status", field)
			}
		}
		return nil
	}
	h.api.Register(resource)
}

// metacontrollers is a status field that no CustomResourceDefinition has, so that nothing is stored.
const metacontrollers = "none"

// redefine has the definition of CompositeControllers change.
func (h *host) redefine() {
	before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "compositecontrollers.metacontroller.k8s.io", Generation: 1}}
	after := before.DeepCopy()
	after.Generation = 2
	h.ownDefinitionChanged(before, after)
}

// lagPassed has the time pass after which an API server may have followed a changed definition.
func (h *host) lagPassed() { h.state("cc").redefined.askAt = time.Time{} }

// keptReady returns the reason of Ready, also if the API server does not store it.
func (h *host) keptReady() string {
	for _, condition := range h.conditionsOf(declared(h.cc())) {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Reason
		}
	}
	return ""
}

// TestUnrecordedParentsGetNoFinalizer: with the CustomResourceDefinition of Metacontroller the record is dropped.
func TestUnrecordedParentsGetNoFinalizer(t *testing.T) {
	for name, fields := range map[string][]string{
		"of Metacontroller":   {metacontrollers},
		"of an older release": {"observedGeneration", "children", "conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, controllerWith(withFinalize))
			h.define(fields...)
			h.mustSync()
			h.wantDid()
			h.wantRequests(statusWrite, statusWrite)
			if got := h.cc().Finalizers; len(got) > 0 {
				t.Errorf("the CompositeController has the finalizers %v", got)
			}
			if got := h.keptReady(); got != v1alpha1.ReasonStatusNotStored {
				t.Errorf("the reason of Ready, which the metrics count, is %q", got)
			}
			want := "the API server does not store status.finalizedParents"
			events := h.takeEvents()
			if len(events) != 1 || !strings.HasPrefix(events[0], "Warning CreateError Cannot create new controller: "+want) ||
				!strings.Contains(events[0], "-f manifests/00-crds/metacontroller.k8s.io_compositecontrollers.yaml") {
				t.Errorf("the events are %q", events)
			}
			if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "CompositeControllers cc: the CustomResourceDefinition compositecontrollers.metacontroller.k8s.io") {
				t.Errorf("readyz answers %v", err)
			}

			// Nothing is sent again before something changes.
			for range 3 {
				h.mustSync()
			}
			h.wantRequests()
			h.wantEvents()
			h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.GenerateSelector = new(bool) })
			h.mustSync()
			if requests, _ := h.api.TakeLog(); len(requests) == 0 {
				t.Error("an edit is not tried")
			}
			h.mustSync()
			h.wantRequests()
			h.wantEvents()
			h.wantDid()

			// The API server does not follow the definition immediately.
			h.redefine()
			if after := h.mustSync(); after <= 0 || after > minDiscoveryLag {
				t.Errorf("after the definition has changed it is synced again after %s", after)
			}
			h.wantDid()
			h.wantEvents()
			h.define()
			h.lagPassed()
			h.mustSync()
			h.wantDid("new generation 8")
			if got := h.cc(); len(got.Finalizers) != 1 || len(got.Status.FinalizedParents) != 1 {
				t.Errorf("the finalizers are %v, and the record is %v", got.Finalizers, got.Status.FinalizedParents)
			}
			if err := h.Ready(); err != nil {
				t.Errorf("readyz answers %v", err)
			}
			h.parents.health.Synced = true
			h.mustSync()
			h.wantReady(v1alpha1.ReasonServing)
		})
	}
}

// TestUnstoredConditions: without a finalize hook a CompositeController works with the CustomResourceDefinition of Metacontroller.
func TestUnstoredConditions(t *testing.T) {
	h := newHost(t, controllerWith())
	h.define(metacontrollers)
	h.newParentController = hostedImmediately(h)
	h.mustSync()
	h.wantDid("start it")
	h.wantRequests(statusWrite)
	message := "the API server does not store the status of this CompositeController, which is served without conditions: " +
		otherDefinition(v1alpha1.Resource("compositecontrollers"))
	h.wantEvents("Normal Starting Starting controller: cc", "Normal Started Started controller: cc", "Warning StatusNotStored "+message)
	if err := h.Ready(); err != nil {
		t.Errorf("readyz answers %v", err)
	}
	since := meta.FindStatusCondition(h.conditionsOf(declared(h.cc())), v1alpha1.ConditionReady).LastTransitionTime

	// Its health is not sent, and is known to the metrics and in events.
	h.mustSync()
	for _, problem := range []*parent.Problem{{Reason: v1alpha1.ReasonNeverSettles, Message: "no end"}, {Reason: "HookUnreachable", Message: "no answer"}} {
		h.parents.health.Failures = parent.Failures{Problem: problem, General: true}
		h.reportedLongAgo()
		h.mustSync()
		if got := h.keptReady(); got != problem.Reason {
			t.Errorf("the reason of Ready, which the metrics count, is %q, want %q", got, problem.Reason)
		}
	}
	h.wantRequests()
	h.wantEvents("Warning NeverSettles no end")

	h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.GenerateSelector = new(bool) })
	h.reportedLongAgo()
	h.mustSync()
	h.wantRequests(statusWrite)
	for _, event := range h.takeEvents() {
		if strings.Contains(event, "Warning") {
			t.Errorf("after an edit of the spec there is the event %q", event)
		}
	}

	// The definition changes. It is asked for in the same generation.
	h.redefine()
	h.reportedLongAgo()
	h.mustSync()
	h.wantRequests(statusWrite)
	h.mustSync()
	h.wantRequests()
	h.define()
	h.lagPassed()
	h.reportedLongAgo()
	h.mustSync()
	h.wantRequests(statusWrite)
	h.wantEvents()
	h.wantReady(v1alpha1.ReasonServing)
	if now := meta.FindStatusCondition(h.cc().Status.Conditions, v1alpha1.ConditionReady); now.LastTransitionTime.Before(&since) {
		t.Errorf("it is Ready since %s", now.LastTransitionTime)
	}
	h.lagPassed()
	h.mustSync()
	h.wantRequests()
}

// TestRecordIsLost: the CustomResourceDefinition of Metacontroller is installed while a CompositeController is hosted. Its cache shows the record for a while.
func TestRecordIsLost(t *testing.T) {
	h := newHost(t, controllerWith(withFinalize))
	h.start()
	h.define(metacontrollers)
	h.mustSync()
	h.wantRequests()
	h.redefine()
	cached := h.cc()
	h.mustSync()
	h.wantDid("stop generation 7")
	if err := h.Ready(); err == nil {
		t.Error("readyz answers that all is well")
	}
	if err := h.indexer.Replace([]any{cached}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := h.syncHandler(t.Context(), h.declarationKey("cc")); err != nil {
		t.Fatal(err)
	}
	h.wantDid() // it is not hosted again because of a stale cache
	if got := h.cc().Finalizers; !slices.Contains(got, finalizer) {
		t.Error("its own finalizer is gone, and parents may have theirs")
	}
	h.define()
	h.redefine()
	h.mustSync()
	h.wantDid("new generation 7")
}

func TestReadyForgetsDeclarations(t *testing.T) {
	for name, end := range map[string]func(h *host){
		"deleted": func(h *host) { h.objects.Remove("", "cc") },
		"being deleted": func(h *host) {
			h.edit(func(cc *v1alpha1.CompositeController) { cc.Finalizers = []string{"example.com/theirs"} })
			h.objects.Delete("", "cc")
		},
		"not selected": func(h *host) { h.TargetSelector = labels.Nothing() },
		"no finalize hook": func(h *host) {
			h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.Hooks.Finalize = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, controllerWith(withFinalize))
			h.define(metacontrollers)
			h.mustSync()
			if h.Ready() == nil {
				t.Fatal("readyz answers that all is well")
			}
			end(h)
			h.mustSync()
			if err := h.Ready(); err != nil {
				t.Errorf("readyz answers %v", err)
			}
		})
	}
}

// TestOwnDefinitionOnly: what else changes is no reason to write a status.
func TestOwnDefinitionOnly(t *testing.T) {
	h := newHost(t, controllerWith(withFinalize))
	h.start()
	for name, changed := range map[string]bool{"decoratorcontrollers.metacontroller.k8s.io": true, "compositecontrollers.metacontroller.k8s.io": false} {
		before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, Labels: map[string]string{"a": "b"}}}
		after := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
		if changed {
			after.Generation = 2
		}
		h.ownDefinitionChanged(before, after)
		h.mustSync()
		h.wantRequests()
	}
}
