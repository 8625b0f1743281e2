package simnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observed is what decide decides from.
type observed struct {
	pod    *corev1.Pod
	podIP  string
	hostIP string
	now    time.Time

	// The API has whole seconds only. These are exact, and zero when not known: the last change that we made to the Pod's
	// containers, and when the Pod was first seen being deleted.
	changed  time.Time
	deletion time.Time
}

// decision is what to do with a Pod: one of these, or nothing until it changes.
type decision struct {
	// status is to be written. The Pod has then changed, and is looked at again.
	status *corev1.PodStatus
	// remove: the Pod is removed.
	remove bool
	// after is when to look again.
	after time.Duration
}

// invalidScript is the reason in the status of a Pod whose annotations cannot be read. It runs as if it had none.
const invalidScript = "InvalidSimulation"

// decide returns what a kubelet would do with the Pod.
func decide(o observed) decision {
	s, scriptErr := parseScript(o.pod)
	switch {
	case o.pod.DeletionTimestamp != nil:
		return decideDeletion(o, s)
	case isTerminal(o.pod.Status.Phase):
		// The phase is final, and another client may have set it.
		return decision{}
	}

	status := o.pod.Status.DeepCopy()
	if status.StartTime == nil {
		start(status, o)
	} else {
		advance(status, o, s)
	}
	status.Phase = phase(status)
	if isTerminal(status.Phase) {
		kill(status, o.now) // sidecars
	}
	switch {
	case scriptErr != nil:
		status.Reason, status.Message = invalidScript, scriptErr.Error()
	case status.Reason == invalidScript:
		status.Reason, status.Message = "", ""
	}
	setReadiness(status, o, s)
	status.ObservedGeneration = o.pod.Generation
	if !equality.Semantic.DeepEqual(&o.pod.Status, status) {
		return decision{status: status}
	}
	return decision{after: untilNext(status, o, s)}
}

// decideDeletion returns what to do with a Pod that is being deleted.
func decideDeletion(o observed, s script) decision {
	var grace time.Duration
	if seconds := o.pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	began := o.deletion
	if began.IsZero() {
		began = o.pod.DeletionTimestamp.Add(-grace)
	}
	if after := began.Add(min(s.termination, grace)).Sub(o.now); after > 0 {
		return decision{after: after}
	}
	// A finalizer keeps the Pod after its removal, and clients that wait for its containers must see that they have ended.
	if len(o.pod.Finalizers) > 0 && !isTerminal(o.pod.Status.Phase) {
		status := o.pod.Status.DeepCopy()
		kill(status, o.now)
		status.Phase = corev1.PodFailed
		setReadiness(status, o, s)
		status.ObservedGeneration = o.pod.Generation
		return decision{status: status}
	}
	switch {
	case grace > 0:
		return decision{remove: true}
	case len(o.pod.Finalizers) > 0:
		// It is removed already, as far as that is up to the node.
		return decision{}
	}
	// Without a grace period the API server marks a Pod and then removes it. If the API server was stopped in between, it removes
	// the Pod on the next request, which kubelets send.
	if after := began.Add(removalTime).Sub(o.now); after > 0 {
		return decision{after: after}
	}
	return decision{remove: true}
}

// removalTime is far more than an API server takes from the mark to the removal.
const removalTime = time.Second

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// phase returns the Pod's phase, from the states of its containers. This package never makes a container wait that has not run:
// another client does, to simulate that it cannot start.
func phase(status *corev1.PodStatus) corev1.PodPhase {
	var pending, running, failed bool
	for _, c := range status.ContainerStatuses {
		switch {
		case c.State.Terminated != nil:
			failed = failed || c.State.Terminated.ExitCode != 0
		case c.State.Running != nil || c.LastTerminationState.Terminated != nil:
			running = true
		default:
			pending = true
		}
	}
	switch {
	case pending:
		return corev1.PodPending
	case running:
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// exact undoes the rounding of a time in the status, if it is that of the last change.
func (o observed) exact(t metav1.Time) time.Time {
	if o.changed.Truncate(time.Second).Equal(t.Time) {
		return o.changed
	}
	return t.Time
}
