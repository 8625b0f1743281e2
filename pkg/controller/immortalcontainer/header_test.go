// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// large gives the container a template of 900 KB.
func large(container *v1alpha1.ImmortalContainer) {
	container.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: ContainerName, Env: []corev1.EnvVar{{Name: "BALLAST", Value: strings.Repeat("x", 900_000)}},
	}}}}
}

// annotated as by kubectl apply, and by a user who thinks to know our annotations.
func annotated(container *v1alpha1.ImmortalContainer) {
	container.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 200_000),
		AnnotationSpecHash: "0123456789abcdef",
	}
}

func trimmed(container *v1alpha1.ImmortalContainer) *v1alpha1.ImmortalContainer {
	container = container.DeepCopy()
	trimContainer(container)
	return container
}

func heldBytes(t *testing.T, object any) int {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(content)
}

func TestCacheOfALargeContainer(t *testing.T) {
	whole := newContainer(large, annotated, suspended, withStatus(suspendedIdle(3)))
	held := trimmed(whole)
	if size := heldBytes(t, held); size > 4096 {
		t.Errorf("%d bytes are held", size)
	}
	if !isHeader(held) || wantedHash(held) != specHash(whole.Spec) {
		t.Errorf("the header has the hash %q, the spec %q", wantedHash(held), specHash(whole.Spec))
	}
	if diff := cmp.Diff(held, trimmed(held)); diff != "" {
		t.Errorf("trimmed again (-want +got):\n%s", diff)
	}
	whole.Annotations, whole.Spec.Image, whole.Spec.Template, held.Annotations = nil, "", nil, nil
	if diff := cmp.Diff(whole, held); diff != "" {
		t.Errorf("what else is held (-want +got):\n%s", diff)
	}
}

func TestCacheOfASmallContainer(t *testing.T) {
	whole := newContainer(annotated)
	held := trimmed(whole)
	if isHeader(held) || wantedHash(held) != specHash(whole.Spec) || held.Annotations != nil || held.Spec.Image != whole.Spec.Image {
		t.Errorf("held is %+v", held)
	}
}

func TestTheCacheHoldsOfAPodWhatDecisionsNeed(t *testing.T) {
	pod := podOf(3, podReady, podTerminating(-1))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "BALLAST", Value: strings.Repeat("x", 900_000)}}
	pod.Annotations["example.com/ballast"] = strings.Repeat("x", 200_000)
	held := pod.DeepCopy()
	trimPod(held)
	if size := heldBytes(t, held); size > 4096 {
		t.Errorf("%d bytes are held", size)
	}
	// Each decision is the same, whichever is decided from.
	containers := []*v1alpha1.ImmortalContainer{newContainer(), newContainer(suspended), newContainer(large), newContainer(withStatus(running(3)))}
	pods := [][]podOption{
		{}, {podReady}, {podOfOldSpec}, {podOrphan}, {podForeign}, {podUnlabelled}, {podEnded(1, "Error", -1)}, {podTerminating(-5)},
		{podWaiting("ImagePullBackOff")},
	}
	for _, container := range containers {
		for _, options := range pods {
			whole := podOf(3, options...)
			held := whole.DeepCopy()
			trimPod(held)
			want := describe(decide(observed{container: container, pod: whole, now: noon}))
			got := describe(decide(observed{container: trimmed(container), pod: held, now: noon}))
			if diff := diffLines(want, got); diff != "" {
				t.Errorf("decided from what is held (-whole +held):\n%s", diff)
			}
		}
	}
}

const (
	readsContainer = "get ImmortalContainer x"
	resumes        = "status: start 1, seen 0, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating"
)

func TestPodOfALargeContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		time.Sleep(time.Second)
		a.wants("a start, from the answer to its reservation", resumes, createsFirst, startedFirst)
		a.podBecomes(podReady)
		time.Sleep(time.Hour)
		a.wants("once it is ready", isReadyFirst)
		if env := a.pod().Spec.Containers[0].Env; len(env) != 1 || len(env[0].Value) != 900_000 {
			t.Errorf("the Pod has %d variables", len(env))
		}
	}, large)
}

func TestLargeContainerIsReadOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		time.Sleep(time.Hour)
		a.wants("a start that was reserved", readsContainer, createsFirst, startedFirst)
		if env := a.pod().Spec.Containers[0].Env; len(env) != 1 {
			t.Errorf("the Pod has %d variables", len(env))
		}
	}, large, withStatus(creating(1, reserved)))
}

func TestAnEditOfALargeContainerReplacesItsPod(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(container *v1alpha1.ImmortalContainer) {
			container.Spec.Template.Spec.Containers[0].Env[0].Name = "OTHER"
		})
		synctest.Wait()
		a.wants("after the edit", "status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Replacing, Progressing=True Replacing",
			deletesFirst, `event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`)
	}, large)
}

// Suspend comes before the hash: nothing is to be replaced that is to be stopped.
func TestSuspendWithPodOfOldSpec(t *testing.T) {
	testPlans(t, map[string]planCase{
		"suspended, with an edit in the same write": {
			observed: observed{container: newContainer(suspended, edited, withStatus(running(1))), pod: podOf(1, podReady, podOfOldSpec)},
			want: []string{"status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Suspended, Progressing=False Suspended",
				`event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`, "delete Pod uid-pod-1"},
		},
	})
}
