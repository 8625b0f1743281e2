// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

func TestHostStartsOnceCachesAreFilled(t *testing.T) {
	h := newHost(t, controllerWith())
	if after := h.mustSync(); after != syncedInterval {
		t.Errorf("the caches are checked again after %v, want %v", after, syncedInterval)
	}
	h.wantDid("new generation 7")
	h.wantEvents("Normal Starting Starting controller: cc")
	h.wantRequests() // as a rule it is ready before a status would be read

	h.parents.health.Synced = true
	if after := h.mustSync(); after != 0 {
		t.Errorf("it is synced again after %v", after)
	}
	h.wantDid("start generation 7")
	h.wantEvents("Normal Started Started controller: cc")
	h.wantRequests("update compositecontrollers/status cc")
	h.wantReady(v1alpha1.ReasonServing)

	h.mustSync()
	h.wantDid()
	h.wantEvents()
	h.wantRequests()
}

func TestHostReportsSlowCaches(t *testing.T) {
	h := newHost(t, controllerWith())
	h.mustSync()
	h.state("cc").hosted.since = time.Now().Add(-hooksReportInterval)
	h.mustSync()
	h.wantReady(v1alpha1.ReasonStarting)
}

func TestHostRoutesParents(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	for controller, want := range map[types.UID][]string{"cc": {"sync generation 7"}, "another": nil} {
		if _, err := h.syncHandler(t.Context(), parent.Key{Controller: controller, Namespace: "ns", Name: "thing"}); err != nil {
			t.Fatal(err)
		}
		h.wantDid(want...)
	}
}

func TestHostReplacesEachGeneration(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	first := h.parents
	h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.GenerateSelector = new(bool) })
	h.mustSync()
	h.wantDid("new generation 8", "stop generation 7")
	if !first.stopped || h.running[h.cc().UID] != parentController(h.parents) {
		t.Error("the parents of the generation before are still synced")
	}
	h.wantEvents("Normal Stopping Stopping controller: cc", "Normal Stopped Stopped controller: cc", "Normal Starting Starting controller: cc")

	h.state("cc").rediscover.Store(true)
	h.mustSync()
	h.wantDid() // the API server serves the same resources
}

func TestHostPassesMetadataOn(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	overlaps := h.parents.overlaps
	h.edit(func(cc *v1alpha1.CompositeController) { cc.Labels = map[string]string{"a": "b"} })
	h.mustSync()
	h.wantDid()
	if h.parents.metadata == nil || h.parents.metadata.Labels["a"] != "b" {
		t.Error("hooks do not see the new labels")
	}
	if h.parents.overlaps == overlaps {
		t.Error("the overlap with older CompositeControllers is not passed on")
	}
}

func TestHostStops(t *testing.T) {
	for name, test := range map[string]func(h *host){
		"deleted":         func(h *host) { h.objects.Remove("", "cc") },
		"being deleted":   func(h *host) { h.objects.Delete("", "cc") },
		"not selected":    func(h *host) { h.TargetSelector = labels.Nothing() },
		"an invalid spec": func(h *host) { h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.Hooks = nil }) },
		"the end of Run":  func(h *host) { h.stopAll() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, controllerWith())
			h.start()
			test(h)
			h.mustSync()
			if !h.parents.stopped {
				t.Error("parents are still synced")
			}
		})
	}
}

func TestHostPausesWhileAWatchFails(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	h.parents.health.Watch = &parent.Problem{Reason: v1alpha1.ReasonForbidden, Message: "no"}
	h.mustSync()
	h.wantDid("pause generation 7")
	h.wantReady(v1alpha1.ReasonForbidden)
	h.parents.health.Watch = nil
	h.reportedLongAgo()
	h.mustSync()
	h.wantDid("start generation 7")
	h.wantReady(v1alpha1.ReasonServing)
}

// TestHostReportsStall: what is seen is still synced. While caches are not filled, the end of the stall is waited for, not asked for all the time.
func TestHostReportsStall(t *testing.T) {
	stalled := &parent.Problem{Reason: v1alpha1.ReasonWatchStalled, Message: "conversion failed"}
	h := newHost(t, controllerWith())
	h.mustSync()
	h.wantDid("new generation 7")
	h.takeEvents()
	h.parents.health.Stalled = stalled
	if after := h.mustSync(); after != 0 {
		t.Errorf("it is synced again after %s", after)
	}
	h.wantReady(v1alpha1.ReasonWatchStalled)
	h.wantEvents("Warning WatchStalled conversion failed")
	h.parents.health = parent.Health{Synced: true}
	h.reportedLongAgo()
	h.mustSync()
	h.wantDid("start generation 7")
	h.wantReady(v1alpha1.ReasonServing)
	h.takeEvents()
	h.parents.health.Stalled = stalled
	h.mustSync()
	h.wantDid()
	h.wantReady(v1alpha1.ReasonWatchStalled)
	h.wantEvents("Warning WatchStalled conversion failed")
}

func TestHostWaitsForMissingResources(t *testing.T) {
	h := newHost(t, controllerWith())
	served := h.served.Resources
	h.served.Resources = served[1:] // without things
	for i := range 2 {
		if after := h.mustSync(); after < minDiscoveryInterval || after > maxDiscoveryInterval {
			t.Errorf("the API server is asked again after %v", after)
		}
		h.wantReady(v1alpha1.ReasonParentNotServed)
		if events := h.takeEvents(); len(events) != 1-i {
			t.Errorf("sync %d: the events are %q", i, events)
		}
	}
	h.wantDid()
	h.served.Resources = served
	h.mustSync()
	h.wantDid("new generation 7")
}

func TestHostReportsProblems(t *testing.T) {
	for name, test := range map[string]struct {
		spec          edit
		prepare       func(h *host)
		reason, event string
	}{
		"an invalid spec": {func(spec *v1alpha1.CompositeControllerSpec) { spec.Hooks = nil }, nil, v1alpha1.ReasonInvalidSpec, "Warning CreateError"},
		"no status subresource": {nil, func(h *host) {
			h.served.Resources[0].APIResources = []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}}
		}, v1alpha1.ReasonStatusSubresourceMissing, "Warning SyncError"},
		"a hook that cannot be configured": {nil, func(h *host) {
			h.problem = &parent.Problem{Reason: "HookInvalidConfiguration", Message: "no"}
		}, "HookInvalidConfiguration", "Warning CreateError"},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []edit{}
			if test.spec != nil {
				edits = append(edits, test.spec)
			}
			h := newHost(t, controllerWith(edits...))
			if test.prepare != nil {
				test.prepare(h)
			}
			h.mustSync()
			h.wantReady(test.reason)
			if events := h.takeEvents(); len(events) != 1 || !strings.HasPrefix(events[0], test.event) {
				t.Errorf("the events are %q, want one of %s", events, test.event)
			}
			h.api.TakeLog()
			h.mustSync()
			h.wantEvents()
			h.wantRequests()
		})
	}
}

func TestHostRetriesDiscovery(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.GenerateSelector = new(bool) })
	resources := h.served.Resources
	h.served.Resources = nil
	h.mustSync()
	h.wantReady(v1alpha1.ReasonParentNotServed)
	if !h.parents.stopped {
		t.Error("parents of another generation are still synced")
	}
	h.served.Resources = resources
	h.did = nil
	h.mustSync()
	h.wantDid("new generation 8")
}

// TestHostWaitsForAGroup: an aggregated API that is down is reported by whom it keeps from starting, and what runs goes on.
func TestHostWaitsForAGroup(t *testing.T) {
	h := newHost(t, controllerWith())
	var answer error
	asked := 0
	h.served.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return answer != nil, nil, answer
	})
	answer = apierrors.NewServiceUnavailable("no endpoints")
	if after := h.mustSync(); after <= 0 || after > maxDiscoveryInterval {
		t.Errorf("it is synced again after %s", after)
	}
	h.wantDid()
	h.wantReady(v1alpha1.ReasonGroupUnavailable)
	ready := meta.FindStatusCondition(h.cc().Status.Conditions, v1alpha1.ConditionReady)
	for _, want := range []string{"resources of v1 it serves", "no endpoints", "APIService v1."} {
		if !strings.Contains(ready.Message, want) {
			t.Errorf("the message is %q, want %q in it", ready.Message, want)
		}
	}
	h.wantEvents("Warning CreateError Cannot create new controller: " + ready.Message)
	h.mustSync()
	h.wantEvents()
	answer = nil
	h.start()

	answer = apierrors.NewServiceUnavailable("no endpoints")
	h.state("cc").rediscover.Store(true)
	if after := h.mustSync(); after <= 0 || after > maxDiscoveryInterval {
		t.Errorf("while it runs, it is synced again after %s", after)
	}
	h.wantReady(v1alpha1.ReasonServing)
	if h.parents.stopped {
		t.Error("the parents are not synced any more")
	}
	before := asked
	h.parents.health.Synced = false
	for range 10 {
		h.mustSync()
	}
	if asked != before {
		t.Errorf("the API server is asked %d more times within 15 seconds", asked-before)
	}
	h.parents.health.Synced = true
	h.state("cc").unansweredUntil = time.Now()
	if h.mustSync(); asked != before+1 {
		t.Errorf("the API server is asked %d times later", asked-before)
	}
	h.edit(func(cc *v1alpha1.CompositeController) { cc.Spec.GenerateSelector = new(bool) })
	for _, transient := range []error{errors.New("connection refused"), apierrors.NewTooManyRequests("busy", 1)} {
		answer = transient
		if _, err := h.sync(); err == nil || h.parents.stopped {
			t.Errorf("%v: the error is %v, and the parents are stopped: %t", transient, err, h.parents.stopped)
		}
	}
	answer = fmt.Errorf("reading: %w", context.DeadlineExceeded)
	h.mustSync()
	h.wantReady(v1alpha1.ReasonGroupUnavailable)
	answer = nil
	h.did = nil
	h.mustSync()
	h.wantDid("new generation 8")
}

// TestDiscoveryLag: after a definition has changed, the API server is asked a few times more, however often the declaration is synced.
func TestDiscoveryLag(t *testing.T) {
	s := &state{}
	begin := time.Now()
	if again, ask := s.defined.next(begin); ask || again != 0 {
		t.Errorf("before any change: %v, %t", again, ask)
	}
	s.defined.Store(&begin)
	var asked []time.Duration
	for passed := time.Duration(0); passed < time.Minute; passed += 20 * time.Millisecond {
		again, ask := s.defined.next(begin.Add(passed))
		if ask {
			asked = append(asked, passed)
		}
		if again < 0 || again > maxDiscoveryLag {
			t.Fatalf("after %s it is asked again after %s", passed, again)
		}
	}
	if want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}; !slices.Equal(asked, want) {
		t.Errorf("asked after %v, want %v", asked, want)
	}
}

// TestHostFollowsLateDiscovery: the answer after the change of a definition was an old one.
func TestHostFollowsLateDiscovery(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	changed := time.Now()
	h.state("cc").defined.Store(&changed)
	if after := h.mustSync(); after <= 0 || after > minDiscoveryLag {
		t.Errorf("it is synced again after %s", after)
	}
	h.served.Resources = h.served.Resources[1:] // without things
	h.state("cc").defined.askAt = time.Now()
	h.mustSync()
	h.wantReady(v1alpha1.ReasonParentNotServed)
}

func TestStatusReportsOnHooksOncePerInterval(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	h.parents.health.Failures = parent.Failures{Problem: &parent.Problem{Reason: "HookUnreachable", Message: "refused"}, General: true}
	if after := h.mustSync(); after <= 0 || after > hooksReportInterval {
		t.Errorf("the next report is due after %v", after)
	}
	h.wantRequests()
	h.reportedLongAgo()
	if after := h.mustSync(); after != 0 {
		t.Errorf("it is synced again after %v", after)
	}
	h.wantRequests("update compositecontrollers/status cc")
	h.wantReady("HookUnreachable")
}

func TestStatusWarnsOncePerReason(t *testing.T) {
	h := newHost(t, controllerWith())
	h.start()
	for _, message := range []string{"one", "two"} {
		h.parents.health.Failures = parent.Failures{Problem: &parent.Problem{Reason: v1alpha1.ReasonNeverSettles, Message: message}, General: true}
		h.reportedLongAgo()
		h.mustSync()
	}
	h.wantEvents("Warning NeverSettles one")
}

func TestStatusWriteErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		fails bool
	}{
		"conflict":  {apierrors.NewConflict(v1alpha1.Resource("compositecontrollers"), "cc", errors.New("old")), true},
		"not found": {apierrors.NewNotFound(v1alpha1.Resource("compositecontrollers"), "cc"), false},
		"internal":  {apierrors.NewInternalError(errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, controllerWith())
			h.start()
			h.parents.health.Failures = parent.Failures{Problem: &parent.Problem{Reason: v1alpha1.ReasonNeverSettles, Message: "why"}, General: true}
			h.reportedLongAgo()
			h.api.Fail("update compositecontrollers/status", test.err)
			if _, err := h.sync(); (err != nil) != test.fails || apierrors.IsConflict(test.err) != apierrors.IsConflict(err) {
				t.Errorf("the error is %v", err)
			}
			if test.fails {
				h.wantEvents() // the event follows the write
			}
		})
	}
}
