// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/phase"
)

func TestFailureMessage(t *testing.T) {
	for name, index := range map[string]int{"a phase": 1, "a deferPhase": phase.Deferred} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				c := newPodCluster(t)
				p, call := c.process(), taskCall(t)
				call.ID.Phase = index
				call.begin(p)
				c.print(MainContainer, "connecting\n\n"+output("secret", "value")+"no such host\n")
				c.update(podExited(3))
				found := call.finish(p)
				podWantState(t, "the end", found, phase.Failed)
				prefix := `{"pod":"` + c.pods()[0].Name + `"}: `
				if index == phase.Deferred {
					prefix = ""
				}
				podWant(t, "the failure", found.Message, prefix+"Failed while waiting for Pod to complete: Pod failed to complete in time: "+
					"container container exited with code 3\nlast lines of the log of container container:\nconnecting\nno such host")
			})
		})
	}
}

func TestFailureHasLogOfFailedContainer(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		p := c.process()
		call := newPodTestCall(t, "two containers", map[string]any{"image": "i", "command": "c"})
		call.begin(p)
		c.print(MainContainer, "all is well\n")
		c.print("aside", "disk full\n")
		c.update(func(pod *corev1.Pod) {
			podExited(0)(pod)
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "aside", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
			}})
		})
		found := call.finish(p)
		podWantState(t, "the end", found, phase.Failed)
		podWantText(t, "the failure", found.Message, "container aside exited with code 137 (OOMKilled)", "log of container aside:\ndisk full")
		if strings.Contains(found.Message, "all is well") {
			t.Error("the message has the log of a container that succeeded")
		}
	})
}

func TestTaskSucceedsWithFailedPod(t *testing.T) {
	for function, want := range map[string]phase.State{"careless task": phase.Succeeded, "task": phase.Failed} {
		podBubble(t, func(t *testing.T) {
			c := newPodCluster(t)
			p := c.process()
			call := newPodTestCall(t, function, map[string]any{"image": "i", "command": "c"})
			call.begin(p)
			c.print(MainContainer, output("a", "1"))
			c.update(podExited(5))
			found := call.finish(p)
			podWantState(t, function, found, want)
			if want == phase.Succeeded {
				podWant(t, "outputs that it printed before", found.Output, map[string]any{"a": "1"})
			}
		})
	}
}

func TestInvalidOutputFailsRunningTask(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		c.print(MainContainer, "###Phase-output###:nope\n")
		c.update(podRunning(MainContainer))
		call.poll(p)
		p.wakes(testID)
		podWant(t, "the end", call.poll(p), phase.Observation{
			State: phase.Failed, Message: "Failed to unmarshal key-value pair: invalid character 'o' in literal null (expecting 'u')",
		})
	})
}

func TestInvalidOutput(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		c.logErr = apierrors.NewInternalError(errors.New("node unreachable"))
		p, call := c.process(), taskCall(t)
		call.begin(p)
		c.update(podExited(0))
		found := call.finish(p)
		podWantState(t, "the end", found, phase.Failed)
		podWantText(t, "the failure", found.Message, "log cannot be read", "node unreachable")
	})
}

func TestEvictedPod(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		c.update(func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			pod.Status.Conditions = []corev1.PodCondition{{Type: "DisruptionTarget", Status: "True", Reason: "TerminationByKubelet"}}
		})
		found := call.finish(p)
		podWantState(t, "the end", found, phase.Failed)
		podWantText(t, "the failure", found.Message, "Evicted: The node was low on resource: memory.", "TerminationByKubelet")
	})
}

func TestPodStartTimeout(t *testing.T) {
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodPending
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "container", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
			}}}
		}
	}
	noRoom := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "0/2 nodes are available"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
	inInit := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	besidesOne := func(pod *corev1.Pod) {
		waiting("ErrImagePull", "not found")(pod)
		always := corev1.ContainerRestartPolicyAlways
		runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: runs}}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "other", State: runs})
	}
	for name, test := range map[string]struct {
		pod   func(*corev1.Pod)
		claim corev1.PersistentVolumeClaimPhase
		// after is when it fails, 0 if it does not.
		after time.Duration
		text  string
	}{
		"the image may come":        {pod: waiting("ErrImagePull", "not found"), after: podStartLimit, text: "container container waits: ErrImagePull: not found"},
		"the Secret may come":       {pod: waiting("CreateContainerConfigError", `secret "x" not found`), after: podStartLimit, text: `secret "x" not found`},
		"others run":                {pod: besidesOne, after: podStartLimit, text: "container container waits: ErrImagePull"},
		"no image has such a name":  {pod: waiting("InvalidImageName", "couldn't parse"), after: time.Second, text: "InvalidImageName: couldn't parse"},
		"room may come":             {pod: noRoom, claim: corev1.ClaimBound, after: podStartLimit, text: "no node takes it: Unschedulable: 0/2 nodes are available"},
		"its volume is gone":        {pod: noRoom, claim: corev1.ClaimLost, after: time.Second, text: "PersistentVolumeClaim data is Lost"},
		"an init container is slow": {pod: inInit},
	} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				claim := &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "data"}, Status: corev1.PersistentVolumeClaimStatus{Phase: test.claim},
				}
				c := newPodCluster(t, claim)
				p, call := c.process(), taskCall(t)
				call.begin(p)
				c.update(test.pod)
				if test.after == 0 {
					time.Sleep(5 * time.Hour)
					podWantState(t, "after five hours", call.poll(p), phase.Running)
					return
				}
				if test.after == podStartLimit {
					time.Sleep(podStartLimit - time.Second)
					found := call.poll(p)
					podWantState(t, "just before the limit", found, phase.Running)
					podWant(t, "when to look again", found.PollAfter, time.Second)
				}
				time.Sleep(time.Second)
				found := call.poll(p)
				podWantState(t, "at the limit", found, phase.Failed)
				podWantText(t, "the failure", found.Message, "Failed while waiting for Pod to be ready: ", test.text)
			})
		})
	}
}

// An operator that ends before it creates or releases the Pod takes no time from the Pod.
func TestTimeToBeginIsFromRelease(t *testing.T) {
	noImage := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "container", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		}}
	}
	for name, test := range map[string]struct {
		toCreate, toRelease time.Duration
		earlierRelease      bool // of the operator
	}{
		"created late":                    {toCreate: time.Hour},
		"released late":                   {toRelease: time.Hour},
		"created by an earlier operator":  {toCreate: time.Hour, earlierRelease: true},
		"released by an earlier operator": {earlierRelease: true},
	} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				c := newPodCluster(t)
				p, call := c.process(), taskCall(t)
				call.validate(p)
				time.Sleep(test.toCreate)
				call.Intent = call.start(p).Intent
				time.Sleep(test.toRelease)
				p = c.process()
				call.start(p)
				c.update(func(pod *corev1.Pod) {
					noImage(pod)
					if test.earlierRelease {
						delete(pod.Annotations, phase.AnnotationReleased)
						pod.CreationTimestamp = metav1.NewTime(call.StartTime.Add(test.toCreate))
					}
				})
				time.Sleep(podStartLimit - time.Second)
				podWantState(t, "just before the limit", call.poll(p), phase.Running)
				time.Sleep(time.Second)
				found := call.poll(p)
				podWantState(t, "at the limit", found, phase.Failed)
				podWantText(t, "the failure", found.Message, "the Pod has not begun within 15m0s")
			})
		})
	}
}

func TestInitContainersExtendDeadline(t *testing.T) {
	since := time.Now()
	pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(since.Add(time.Hour))}},
	}}}}
	podWant(t, "until when it has to begin", beginsBy(pod, since), since.Add(time.Hour+podStartLimit))
}
