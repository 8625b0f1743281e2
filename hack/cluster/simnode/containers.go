package simnode

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	crashLoopBackOff = "CrashLoopBackOff"
	// The delays of a kubelet before the second and later restarts.
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
	// sigtermExitCode is that of a process which SIGTERM has ended.
	sigtermExitCode = 128 + 15
)

// start fills in the status of a Pod that the node has not seen before: its init containers have completed, the others run.
func start(status *corev1.PodStatus, o observed) {
	now := metav1.NewTime(o.now)
	pod := o.pod
	status.StartTime = &now
	status.HostIP = o.hostIP
	status.HostIPs = []corev1.HostIP{{IP: o.hostIP}}
	status.PodIP = o.podIP
	if pod.Spec.HostNetwork {
		status.PodIP = o.hostIP
	}
	status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}

	status.InitContainerStatuses = nil
	for _, c := range pod.Spec.InitContainers {
		s := newContainerStatus(pod, c)
		if isSidecar(c) {
			setRunning(&s, o.now)
		} else {
			s.State.Terminated = terminated(s.ContainerID, 0, o.now, o.now)
			s.Started = ptr.To(false)
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, s)
	}
	status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		s := newContainerStatus(pod, c)
		setRunning(&s, o.now)
		status.ContainerStatuses = append(status.ContainerStatuses, s)
	}
}

func newContainerStatus(pod *corev1.Pod, c corev1.Container) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image}
	s.ContainerID = containerID(pod, &s)
	return s
}

// advance lets the exits and restarts happen that are due by now, at most one per container: each is to be seen by others.
func advance(status *corev1.PodStatus, o observed, s script) {
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		switch due, ok := nextEvent(c, o, s); {
		case !ok || due.After(o.now):
		case c.State.Running != nil:
			exit(c, o, s.exitCode)
		default:
			restart(c, o)
		}
	}
}

// untilNext is how long it takes until advance has something to do; 0 for never.
func untilNext(status *corev1.PodStatus, o observed, s script) time.Duration {
	var next time.Duration
	for i := range status.ContainerStatuses {
		if due, ok := nextEvent(&status.ContainerStatuses[i], o, s); ok && (next == 0 || due.Sub(o.now) < next) {
			next = due.Sub(o.now)
		}
	}
	return next
}

// nextEvent returns when the container exits, if it runs, or is restarted, if it waits for that. Containers in states that
// another client has set are left alone.
func nextEvent(c *corev1.ContainerStatus, o observed, s script) (due time.Time, ok bool) {
	switch {
	case c.State.Running != nil && s.exits:
		return o.exact(c.State.Running.StartedAt).Add(s.runFor), true
	case c.State.Waiting != nil && c.State.Waiting.Reason == crashLoopBackOff && c.LastTerminationState.Terminated != nil:
		return o.exact(c.LastTerminationState.Terminated.FinishedAt).Add(backOff(c.RestartCount)), true
	}
	return time.Time{}, false
}

// exit ends a container and applies its restart policy.
func exit(c *corev1.ContainerStatus, o observed, code int32) {
	ended := corev1.ContainerState{Terminated: terminated(c.ContainerID, code, c.State.Running.StartedAt.Time, o.now)}
	c.Started = ptr.To(false)
	if !restarts(o.pod, c.Name, code) {
		c.State = ended
		return
	}
	c.LastTerminationState = ended
	delay := backOff(c.RestartCount)
	if delay == 0 {
		restart(c, o)
		return
	}
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  crashLoopBackOff,
		Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)", delay, c.Name, o.pod.Name, o.pod.Namespace, o.pod.UID),
	}}
}

// restarts reports whether the container is started again after it has exited with the code.
func restarts(pod *corev1.Pod, container string, code int32) bool {
	policy := pod.Spec.RestartPolicy
	for _, c := range pod.Spec.Containers {
		if c.Name == container && c.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*c.RestartPolicy)
		}
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// backOff is how long a container that was restarted restartCount times stays down before the next restart.
func backOff(restartCount int32) time.Duration {
	if restartCount == 0 {
		return 0
	}
	delay := firstBackOff
	for ; restartCount > 1 && delay < maxBackOff; restartCount-- {
		delay *= 2
	}
	return min(delay, maxBackOff)
}

func restart(c *corev1.ContainerStatus, o observed) {
	c.RestartCount++
	c.ContainerID = containerID(o.pod, c)
	setRunning(c, o.now)
}

func setRunning(c *corev1.ContainerStatus, now time.Time) {
	c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	c.Started = ptr.To(true)
}

// kill ends all containers that run, as the end of a Pod does.
func kill(status *corev1.PodStatus, now time.Time) {
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			started := now
			switch {
			case c.State.Terminated != nil:
				continue
			case c.State.Running != nil:
				started = c.State.Running.StartedAt.Time
			}
			c.State = corev1.ContainerState{Terminated: terminated(c.ContainerID, sigtermExitCode, started, now)}
			c.Started = ptr.To(false)
		}
	}
}

func terminated(id string, code int32, started, finished time.Time) *corev1.ContainerStateTerminated {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return &corev1.ContainerStateTerminated{
		ExitCode:    code,
		Reason:      reason,
		StartedAt:   metav1.NewTime(started),
		FinishedAt:  metav1.NewTime(finished),
		ContainerID: id,
	}
}

// containerID is different after each restart, as that of a runtime is.
func containerID(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	return fmt.Sprintf("simulated://%s/%s/%d", pod.UID, c.Name, c.RestartCount)
}

// isSidecar reports whether an init container runs as long as the Pod, instead of completing before the Pod starts.
func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
