// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

const (
	adopts    = "adopt Pod uid-pod-3"
	isAdopted = `event Normal Adopted "Adopted Pod x-immortalpod, which a deleted ImmortalContainer of this name has left"`
)

func TestPlanOfAnOrphan(t *testing.T) {
	is := newContainer()
	without := func(change func(*corev1.Pod)) podOption { return change }
	inTheWay := []string{"status: start 0, seen 0, generation 1, Ready=False Conflict, Conflict=True ErrResourceExists",
		`event Warning ErrResourceExists "Resource \"x-immortalpod\" already exists and is not managed by ImmortalContainer"`, looksAgain}
	testPlans(t, map[string]planCase{
		"it is adopted": {observed: observed{container: is, pod: podOf(3, podReady, podOrphan)}, want: []string{adopts, isAdopted}},
		"so is one of an older spec, which is replaced then": {
			observed: observed{container: is, pod: podOf(3, podReady, podOrphan, podOfOldSpec)}, want: []string{adopts, isAdopted}},
		"so is one that has ended": {
			observed: observed{container: is, pod: podOf(3, podOrphan, podEnded(0, "Completed", -5))}, want: []string{adopts, isAdopted}},
		"so is one of a suspended container, which is stopped then": {
			observed: observed{container: newContainer(suspended), pod: podOf(3, podReady, podOrphan)}, want: []string{adopts, isAdopted}},
		"so is one whose owner was taken away by hand": {
			observed: observed{container: is, pod: podOf(3, podReady, without(func(p *corev1.Pod) { p.OwnerReferences = nil }))},
			want:     []string{adopts, isAdopted}},
		"so is one that was in the way of a start that is counted": {
			observed: observed{container: newContainer(withStatus(creating(1, reserved))), live: true, pod: podOf(3, podReady, podOrphan)},
			want:     []string{adopts, isAdopted}},
		"one that terminates is waited for": {
			observed: observed{container: is, pod: podOf(3, podReady, podOrphan, podTerminating(-5))},
			want:     []string{"status: start 0, seen 0, generation 1, Ready=False WaitingForTermination, Progressing=True WaitingForTermination", looksAgain},
		},
		"a container that is being deleted adopts nothing": {
			observed: observed{container: newContainer(deleting), pod: podOf(3, podReady, podOrphan)}, want: []string{}},
		"a Pod without our label is not adopted": {
			observed: observed{container: is, live: true, pod: podOf(3, podOrphan, podUnlabelled)}, want: inTheWay},
		"nor one without the UID of its owner": {
			observed: observed{container: is, pod: podOf(3, podOrphan, without(func(p *corev1.Pod) { delete(p.Labels, LabelControllerUID) }))}, want: inTheWay},
		"nor one without a start": {
			observed: observed{container: is, pod: podOf(3, podOrphan, without(func(p *corev1.Pod) { delete(p.Annotations, AnnotationStart) }))},
			want:     inTheWay},
		"nor one without the hash of a spec": {
			observed: observed{container: is, pod: podOf(3, podOrphan, without(func(p *corev1.Pod) { delete(p.Annotations, AnnotationSpecHash) }))},
			want:     inTheWay},
		"nor one that another controller has": {
			observed: observed{container: is, pod: podOf(3, podOrphan, without(func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", UID: "rs", Controller: new(true)}}
			}))}, want: inTheWay},
		"once it is adopted the count goes on from its start": {
			observed: observed{container: is, pod: podOf(3, podReady)},
			want:     []string{"status: start 3, seen 3, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"},
		},
	})
}

func deleting(container *v1alpha1.ImmortalContainer) { container.DeletionTimestamp = timeAt(after(-1)) }

func TestOtherOwnersOfAnOrphanStay(t *testing.T) {
	container := newContainer()
	other := metav1.OwnerReference{Kind: "ConfigMap", Name: "y", UID: "uid-y"}
	owners := adoptedOwners(container, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		other, {Kind: kind.Kind, Name: "x", UID: container.UID}, // ours, but not as a controller
	}}})
	if len(owners) != 2 || owners[0] != other || owners[1].UID != container.UID || !*owners[1].Controller {
		t.Errorf("owners %v", owners)
	}
}

const (
	looksAtOwner = "get ImmortalContainer x"
	patchOfThree = `patch Pod x-immortalpod {"metadata":{"labels":{"app.kubernetes.io/managed-by":"millwright","controller-uid":"uid-x"},` +
		`"ownerReferences":[{"apiVersion":"immortalcontainers.flugel.it/v1alpha1","kind":"ImmortalContainer","name":"x","uid":"uid-x","controller":true,"blockOwnerDeletion":true}],` +
		`"resourceVersion":"1002","uid":"uid-pod-3"}}`
)

// leaveOrphan puts a Pod of start 3 into the API server that has lost its ImmortalContainer.
func leaveOrphan(a *apiServer, options ...podOption) {
	a.podAppears(podOf(3, append([]podOption{podReady, podOrphan}, options...)...))
}

func TestAnOrphanIsAdoptedWithItsCountOfStarts(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		leaveOrphan(a)
		a.operate()
		time.Sleep(time.Hour)
		a.wants("from the orphan to Ready", looksAtOwner, patchOfThree,
			"status: start 3, seen 3, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running", isAdopted)
		a.podIsDeleted()
		a.podGoes()
		synctest.Wait()
		a.wants("after its deletion",
			"status: start 4, seen 3, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
			"create Pod x-immortalpod, start 4", `event Normal Started "Created Pod x-immortalpod, start 4"`)
	})
}

func TestOrphanOfOldSpecIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		leaveOrphan(a, podOfOldSpec)
		a.operate()
		time.Sleep(time.Second)
		a.wants("an orphan of an older spec", looksAtOwner, patchOfThree,
			"status: start 3, seen 3, generation 1, Pod x-immortalpod Running, Ready=False Replacing, Progressing=True Replacing",
			"delete Pod x-immortalpod if it is uid-pod-3", isAdopted,
			`event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`)
	})
}

// The cache still has the container that is being deleted without its Pod: the Pod must not be given back to it.
func TestOrphanOfDeletedContainerIsNotAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.Freeze()
		a.containers.Remove("default", "x")
		a.podBecomes(func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		a.release("pods")
		// The Pod's former owner and its possible one are queued one after the other: the first may be synced before the second is queued.
		if diff := cmp.Diff([]string{looksAtOwner}, slices.Compact(a.took())); diff != "" {
			t.Errorf("requests, while the deletion is not known (-want +got):\n%s", diff)
		}
		a.Thaw()
		synctest.Wait()
		a.wants("once it is")
		if a.pod() == nil {
			t.Error("the Pod is gone")
		}
	})
}
