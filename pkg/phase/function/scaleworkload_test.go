// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

func replicas(n any) map[string]any { return map[string]any{"replicas": n} }

func succeededFrom(original int64) phase.Observation {
	return phase.Observation{State: phase.Succeeded, Output: map[string]any{"originalReplicaCount": original}}
}

func TestScaleAndWait(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas("0"))
	call.StartTime = time.Now()
	observed := w.advance(&call)
	if diff := cmp.Diff(phase.Observation{State: phase.Running, PollAfter: readinessPoll, Waiting: phase.Waiting{For: "statefulset db/pg to have 0 replicas, and their Pods to run"}}, observed); diff != "" {
		t.Fatalf("while its Pods end (-want +got):\n%s", diff)
	}
	w.change(func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 0 })
	if observed := w.advance(&call); observed.State != phase.Running {
		t.Errorf("there are Pods yet: %+v", observed)
	}
	w.change(func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 2 })
	w.settle()
	if diff := cmp.Diff(succeededFrom(2), w.advance(&call)); diff != "" {
		t.Errorf("its end (-want +got):\n%s", diff)
	}
	if w.patches != 1 || *w.set().Spec.Replicas != 0 {
		t.Errorf("%d patches, %d replicas", w.patches, *w.set().Spec.Replicas)
	}

	up := w.call(2, replicas(2))
	if observed := w.advance(&up); observed.State != phase.Running {
		t.Errorf("on the way up: %+v", observed)
	}
	w.settle()
	if diff := cmp.Diff(succeededFrom(0), w.advance(&up)); diff != "" {
		t.Errorf("its end (-want +got):\n%s", diff)
	}
}

func TestScaleWithoutWaiting(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, map[string]any{"replicas": 5, "waitForReady": "false"})
	if diff := cmp.Diff(succeededFrom(2), w.advance(&call)); diff != "" {
		t.Errorf("its end (-want +got):\n%s", diff)
	}
	if *w.set().Spec.Replicas != 5 {
		t.Errorf("%d replicas", *w.set().Spec.Replicas)
	}
}

// The request is still written: see TestLateScaleRequest.
func TestScaledWorkloadSucceedsImmediately(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas(2))
	if diff := cmp.Diff(succeededFrom(2), w.advance(&call)); diff != "" {
		t.Errorf("its end (-want +got):\n%s", diff)
	}
}

func TestLostStartScalesOnce(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas(0))
	w.lost = true
	if observed, err := w.Start(t.Context(), call); err == nil {
		t.Fatalf("the answer is lost: %+v", observed)
	}
	w.lost = false
	if observed := w.advance(&call); observed.State != phase.Running {
		t.Errorf("it is not found again: %+v", observed)
	}
	if observed, err := w.Start(t.Context(), call); err != nil || observed.State != phase.Running {
		t.Errorf("started once more: %+v, %v", observed, err)
	}
	w.settle()
	if diff := cmp.Diff(succeededFrom(2), w.advance(&call)); diff != "" || w.patches != 1 {
		t.Errorf("after %d patches (-want +got):\n%s", w.patches, diff)
	}
}

func TestChangedWorkloadIsRecordedFirst(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas(0))
	w.change(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](3) })
	observed, err := w.Start(t.Context(), call)
	if err != nil || observed.State != phase.Ready || w.patches != 0 {
		t.Fatalf("after %d patches it is %+v, %v", w.patches, observed, err)
	}
	call.Intent = throughStatus(t, observed.Intent)
	w.advance(&call)
	w.change(func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 2 })
	w.settle()
	if diff := cmp.Diff(succeededFrom(2), w.advance(&call)); diff != "" || w.patches != 1 {
		t.Errorf("after %d patches (-want +got):\n%s", w.patches, diff)
	}
}

func TestLateScaleRequest(t *testing.T) {
	for name, up := range map[string]any{"another number": 3, "the number that there was": 2} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWorld(t, 2)
			down := w.call(0, replicas(0)) // recorded; its process is killed, its request is on the way
			restore := w.call(1, replicas(up))
			w.advance(&restore) // the phase after it, as a deferPhase of a cancelled run
			w.settle()
			if observed := w.advance(&restore); observed.State != phase.Succeeded {
				t.Fatalf("it is not restored: %+v", observed)
			}
			was := *w.set().Spec.Replicas
			observed, err := w.Start(t.Context(), down)
			if err != nil || observed.State != phase.Failed || *w.set().Spec.Replicas != was {
				t.Errorf("the late request leaves %d replicas: %+v, %v", *w.set().Spec.Replicas, observed, err)
			}
		})
	}
}

func TestForeignScalingFails(t *testing.T) {
	for name, test := range map[string]struct {
		other func(set *appsv1.StatefulSet)
		want  string
	}{
		"a person": {
			func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) },
			"statefulset db/pg was scaled to 0, and then to 1 by another client before it was ready",
		},
		"another phase": {
			func(set *appsv1.StatefulSet) { set.Annotations[phase.AnnotationScaled] = "u2.0.0" },
			"statefulset db/pg was scaled by another phase at the same time",
		},
		"another of its name": {
			func(set *appsv1.StatefulSet) { set.UID = "another" },
			"statefulset db/pg was deleted, and another one has its name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWorld(t, 2)
			call := w.call(0, replicas(0))
			w.advance(&call)
			w.change(test.other)
			if diff := cmp.Diff(phase.Observation{State: phase.Failed, Message: test.want}, w.advance(&call)); diff != "" || w.patches != 1 {
				t.Errorf("after %d patches (-want +got):\n%s", w.patches, diff)
			}
		})
	}
}

// An autoscaler that has scaled a workload again is not another client that works against the phase.
func TestAutoscalerWhileScaling(t *testing.T) {
	w := newScaleWorld(t, 0)
	call := w.call(0, replicas(2))
	w.advance(&call)
	w.change(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](5) })
	if got, want := w.advance(&call).Waiting.For, "statefulset db/pg to have 5 replicas, and their Pods to run"; got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
	w.settle()
	if diff := cmp.Diff(succeededFrom(0), w.advance(&call)); diff != "" || w.patches != 1 {
		t.Errorf("after %d patches (-want +got):\n%s", w.patches, diff)
	}

	again := w.call(1, replicas(2))
	w.advance(&again)
	w.change(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
	want := phase.Observation{State: phase.Failed, Message: "statefulset db/pg was scaled to 2, and then to 0 by another client before it was ready"}
	if diff := cmp.Diff(want, w.advance(&again)); diff != "" {
		t.Errorf("scaled to nothing (-want +got):\n%s", diff)
	}
}

func TestScalingNeedsStableObservation(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"outage":      {apierrors.NewServiceUnavailable("away"), ""},
		"no answer":   {errors.New("connection refused"), ""},
		"forbidden":   {apierrors.NewForbidden(resource, "pg", errors.New("no rule")), `statefulsets.apps "pg" is forbidden: no rule`},
		"was deleted": {apierrors.NewNotFound(resource, "pg"), `statefulsets.apps "pg" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWorld(t, 2)
			call := w.call(0, replicas(0))
			w.before = func() error { return test.err }
			observed, err := w.Start(t.Context(), call)
			switch {
			case test.want == "" && err == nil:
				t.Errorf("it has ended: %+v", observed)
			case test.want != "" && (err != nil || observed.State != phase.Failed || observed.Message != test.want):
				t.Errorf("%+v, %v", observed, err)
			}
		})
	}
}

func TestScaledWorkload(t *testing.T) {
	statefulSet, deployment := &blueprint.Workload{Namespace: "db", Name: "pg"}, &blueprint.Workload{Namespace: "web", Name: "shop"}
	for name, test := range map[string]struct {
		action phase.Action
		args   map[string]any
		want   string
	}{
		"the StatefulSet of the action": {phase.Action{StatefulSet: statefulSet}, replicas(1), "statefulset db/pg"},
		"the Deployment of the action":  {phase.Action{Deployment: deployment}, replicas(1), "deployment web/shop"},
		"another name":                  {phase.Action{Deployment: deployment}, map[string]any{"replicas": 1, "name": "cart"}, "deployment web/cart"},
		"another kind":                  {phase.Action{Deployment: deployment}, map[string]any{"replicas": 1, "kind": "StatefulSet"}, "statefulset web/shop"},
		"all given":                     {phase.Action{}, map[string]any{"replicas": 1, "kind": "DEPLOYMENT", "namespace": "a", "name": "b"}, "deployment a/b"},
		"too little":                    {phase.Action{}, map[string]any{"replicas": 1, "kind": "deployment"}, "Workload information not available via defaults or namespace/name/kind parameters"},
		"OpenShift's":                   {phase.Action{Deployment: deployment}, map[string]any{"replicas": 1, "kind": "DeploymentConfig"}, "workloads of kind DeploymentConfig are not supported yet"},
		"no number":                     {phase.Action{Deployment: deployment}, replicas(""), `invalid replicas "": must be a whole number, 0 or more`},
		"a negative number":             {phase.Action{Deployment: deployment}, replicas(-1), `invalid replicas "-1": must be a whole number, 0 or more`},
		"too large a number":            {phase.Action{Deployment: deployment}, replicas("3000000000"), `invalid replicas "3000000000": must be a whole number, 0 or more`},
		"a number as JSON has it":       {phase.Action{Deployment: deployment}, replicas(float64(3)), "deployment web/shop"},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := scaleTarget(phase.Call{Action: test.action, Args: test.args})
			got := target.String()
			if message, ok := phase.FailureOf(err); ok {
				got = message
			}
			if got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

func TestIntentHasOriginalCount(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas(0))
	want := map[string]any{
		"kind": "statefulset", "namespace": "db", "name": "pg", "uid": "pg-uid", "resourceVersion": "10", "originalReplicaCount": float64(2),
	}
	if diff := cmp.Diff(want, call.Intent); diff != "" {
		t.Errorf("the intent (-want +got):\n%s", diff)
	}
	if w.patches > 0 {
		t.Error("to validate changes something")
	}
	_, err := w.Validate(t.Context(), phase.Call{Args: map[string]any{"replicas": 1, "kind": "deployment", "namespace": "db", "name": "none"}})
	if message, _ := phase.FailureOf(err); message != `deployments.apps "none" not found` {
		t.Errorf("a workload that is not there: %v", err)
	}
}

func TestCancelScaling(t *testing.T) {
	w := newScaleWorld(t, 2)
	call := w.call(0, replicas(0))
	w.advance(&call)
	if err := w.Cancel(t.Context(), phase.Call{ID: call.ID}); err != nil {
		t.Fatal(err)
	}
	if observed, err := w.Poll(t.Context(), call); err != nil || observed.State != phase.Stopped {
		t.Errorf("%+v, %v", observed, err)
	}
}

// settledDeployment has three replicas, of the ReplicaSet new.
func settledDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "db", Name: "web", UID: "web-uid", Generation: 4,
			Annotations: map[string]string{annotationRevision: "2"},
		},
		Spec:   appsv1.DeploymentSpec{Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pg"}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 4, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3},
	}
}

func replicaSet(name, revision string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "db", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "pg"},
		Annotations:     map[string]string{annotationRevision: revision},
		OwnerReferences: []metav1.OwnerReference{{UID: "web-uid", Controller: ptr.To(true)}},
	}}
}

func TestDeploymentReadiness(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		pods   string // one letter each: Running, Pending, Failed, old ReplicaSet's
		ready  bool
	}{
		"all run":                         {func(*appsv1.Deployment) {}, "RRR", true},
		"not yet seen by the controller":  {func(d *appsv1.Deployment) { d.Generation = 5 }, "RRR", false},
		"more than wanted":                {func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, "RRR", false},
		"not all updated":                 {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 2 }, "RRR", false},
		"not all available":               {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, "RRR", false},
		"a Pod is missing":                {func(*appsv1.Deployment) {}, "RR", false},
		"a Pod too many":                  {func(*appsv1.Deployment) {}, "RRRR", false},
		"a Pod waits":                     {func(*appsv1.Deployment) {}, "RRRP", false},
		"an evicted Pod lies about":       {func(*appsv1.Deployment) {}, "RRRF", true},
		"a Pod of the ReplicaSet before":  {func(*appsv1.Deployment) {}, "RRRO", true},
		"no ReplicaSet of that revision":  {func(d *appsv1.Deployment) { d.Annotations[annotationRevision] = "3" }, "RRR", false},
		"three by default, none as asked": {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := settledDeployment()
			test.change(deployment)
			cluster := fake.NewClientset(replicaSet("new", "2"), replicaSet("old", "1"))
			for i, letter := range test.pods {
				owner := map[rune]string{'O': "old"}[letter]
				if owner == "" {
					owner = "new"
				}
				phase := map[rune]corev1.PodPhase{'R': corev1.PodRunning, 'O': corev1.PodRunning, 'P': corev1.PodPending, 'F': corev1.PodFailed}[letter]
				if err := cluster.Tracker().Add(ownedPod(strings.Repeat("p", i+1), types.UID(owner), phase)); err != nil {
					t.Fatal(err)
				}
			}
			s := &ScaleWorkload{Client: cluster, pace: &pace{}}
			ready, err := s.ready(t.Context(), workloadOfDeployment(deployment))
			if err != nil || ready != test.ready {
				t.Errorf("ready is %t, %v", ready, err)
			}
		})
	}
}
