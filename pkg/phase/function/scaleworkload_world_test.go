// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

var statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")

// scaleWorld is a StatefulSet db/pg on an API server that, unlike the fake one, checks resourceVersions.
type scaleWorld struct {
	*ScaleWorkload
	t       *testing.T
	cluster *fake.Clientset
	// patches that were done.
	patches int
	// before is called before a patch, if not nil, and may answer it.
	before func() error
	// lost: the answers of patches do not arrive.
	lost bool
}

func newScaleWorld(t *testing.T, replicas int32) *scaleWorld {
	w := &scaleWorld{t: t}
	w.cluster = fake.NewClientset(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "pg", UID: "pg-uid", ResourceVersion: "10"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pg"}},
		},
		Status: appsv1.StatefulSetStatus{ReadyReplicas: replicas},
	})
	w.cluster.PrependReactor("patch", "statefulsets", w.patch)
	w.ScaleWorkload = &ScaleWorkload{Client: w.cluster, Wake: func(phase.ID) {}, pace: &pace{}}
	for i := range replicas {
		w.addPod(i, corev1.PodRunning)
	}
	return w
}

func (w *scaleWorld) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	if w.before != nil {
		if err := w.before(); err != nil {
			return true, nil, err
		}
	}
	var body struct {
		Metadata metav1.ObjectMeta
		Spec     struct{ Replicas *int32 }
	}
	if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &body); err != nil {
		w.t.Fatal(err)
	}
	set := w.set()
	given := body.Metadata
	if given.ResourceVersion != "" && given.ResourceVersion != set.ResourceVersion || given.UID != "" && given.UID != set.UID {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "pg", fmt.Errorf("it has changed"))
	}
	w.patches++
	w.change(func(set *appsv1.StatefulSet) {
		set.Spec.Replicas = body.Spec.Replicas
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		for key, value := range body.Metadata.Annotations {
			set.Annotations[key] = value
		}
	})
	if w.lost {
		return true, nil, fmt.Errorf("connection reset by peer")
	}
	return true, w.set(), nil
}

func (w *scaleWorld) set() *appsv1.StatefulSet {
	w.t.Helper()
	object, err := w.cluster.Tracker().Get(statefulSets, "db", "pg")
	if err != nil {
		w.t.Fatal(err)
	}
	return object.(*appsv1.StatefulSet).DeepCopy()
}

// change changes the StatefulSet as another client.
func (w *scaleWorld) change(how func(*appsv1.StatefulSet)) {
	w.t.Helper()
	set := w.set()
	how(set)
	version, _ := strconv.Atoi(set.ResourceVersion)
	set.ResourceVersion = strconv.Itoa(version + 1)
	if err := w.cluster.Tracker().Update(statefulSets, set, "db"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *scaleWorld) addPod(i int32, phase corev1.PodPhase) {
	w.t.Helper()
	err := w.cluster.Tracker().Add(ownedPod(fmt.Sprintf("pg-%d", i), "pg-uid", phase))
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle does what the controller of StatefulSets does.
func (w *scaleWorld) settle() {
	w.t.Helper()
	had, want := w.set().Status.ReadyReplicas, *w.set().Spec.Replicas
	for i := had; i < want; i++ {
		w.addPod(i, corev1.PodRunning)
	}
	for i := want; i < had; i++ {
		if err := w.cluster.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "db", fmt.Sprintf("pg-%d", i)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.change(func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = want })
}

func ownedPod(name string, owner types.UID, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "db", Name: name, Labels: map[string]string{"app": "pg"},
			OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// call returns the call of the phase with this index.
func (w *scaleWorld) call(index int, args map[string]any) phase.Call {
	w.t.Helper()
	call := phase.Call{
		ID: phase.ID{Namespace: "ops", Name: "maintain", UID: "u1", Phase: index}, Args: args,
		Action: phase.Action{StatefulSet: &blueprint.Workload{Namespace: "db", Name: "pg"}},
	}
	intent, err := w.Validate(w.t.Context(), call)
	if err != nil {
		w.t.Fatal(err)
	}
	call.Intent = throughStatus(w.t, intent)
	return call
}

// throughStatus is the intent after it was recorded.
func throughStatus(t *testing.T, intent map[string]any) (recorded map[string]any) {
	t.Helper()
	content, err := json.Marshal(intent)
	if err == nil {
		err = json.Unmarshal(content, &recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

// advance records and starts a phase in the observed state, as the controller does, and returns its next state when the next poll is due.
func (w *scaleWorld) advance(call *phase.Call) phase.Observation {
	w.t.Helper()
	w.pace = &pace{}
	for range 10 {
		observed, err := w.Poll(w.t.Context(), *call)
		if err == nil && observed.State == phase.Idle {
			observed, err = w.Start(w.t.Context(), *call)
		}
		if err != nil {
			continue
		}
		if observed.State != phase.Ready {
			return observed
		}
		call.Intent = throughStatus(w.t, observed.Intent)
	}
	w.t.Fatal("it gets nowhere")
	return phase.Observation{}
}
