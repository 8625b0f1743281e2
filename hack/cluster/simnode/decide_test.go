package simnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// action is what another client does to the Pod at a time after its creation.
type action struct {
	at time.Duration
	do func(*corev1.Pod, time.Time)
}

// TestDecide lets time pass for a Pod as the simulator and the API server do it, and compares the history of its status.
func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		pod     func(*corev1.Pod)
		actions []action
		until   time.Duration
		want    []string
	}{
		"a Pod runs, is ready immediately, and stays ready": {
			until: 24 * time.Hour,
			want:  []string{"0s Running ready main=running"},
		},
		"init containers have completed, sidecars run": {
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			},
			until: time.Hour,
			want:  []string{"0s Running ready init=exit:0 sidecar=running main=running"},
		},
		"a Pod that is never ready runs": {
			pod:   annotate(NeverReadyAnnotation, "true"),
			until: time.Hour,
			want:  []string{"0s Running main=running"},
		},
		"readiness follows the annotation": {
			actions: []action{
				{5 * time.Second, func(p *corev1.Pod, _ time.Time) { annotate(NeverReadyAnnotation, "true")(p) }},
				{9 * time.Second, func(p *corev1.Pod, _ time.Time) { delete(p.Annotations, NeverReadyAnnotation) }},
			},
			until: time.Hour,
			want: []string{
				"0s Running ready main=running",
				"5s Running main=running",
				"9s Running ready main=running",
			},
		},
		"a readiness gate is waited for": {
			pod: func(p *corev1.Pod) {
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
			},
			actions: []action{{time.Second, func(p *corev1.Pod, _ time.Time) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
			}}},
			until: time.Hour,
			want: []string{
				"0s Running main=running",
				"1s Running ready main=running",
			},
		},
		"restartPolicy Always: the first restart is immediate, then the backoff doubles up to five minutes": {
			pod:   exits(corev1.RestartPolicyAlways, "0", "1.5"),
			until: 20 * time.Minute,
			want: []string{
				"0s Running ready main=running",
				"1.5s Running ready main=running restarts:1 last:0",
				"3s Running main=CrashLoopBackOff restarts:1 last:0",
				"13s Running ready main=running restarts:2 last:0",
				"14.5s Running main=CrashLoopBackOff restarts:2 last:0",
				"34.5s Running ready main=running restarts:3 last:0",
				"36s Running main=CrashLoopBackOff restarts:3 last:0",
				"1m16s Running ready main=running restarts:4 last:0",
				"1m17.5s Running main=CrashLoopBackOff restarts:4 last:0",
				"2m37.5s Running ready main=running restarts:5 last:0",
				"2m39s Running main=CrashLoopBackOff restarts:5 last:0",
				"5m19s Running ready main=running restarts:6 last:0",
				"5m20.5s Running main=CrashLoopBackOff restarts:6 last:0",
				"10m20.5s Running ready main=running restarts:7 last:0",
				"10m22s Running main=CrashLoopBackOff restarts:7 last:0",
				"15m22s Running ready main=running restarts:8 last:0",
				"15m23.5s Running main=CrashLoopBackOff restarts:8 last:0",
			},
		},
		"restartPolicy OnFailure: a failing container is restarted": {
			pod:   exits(corev1.RestartPolicyOnFailure, "3", ""),
			until: 11 * time.Second,
			want: []string{
				"0s Running ready main=running",
				"0s Running ready main=running restarts:1 last:3",
				"0s Running main=CrashLoopBackOff restarts:1 last:3",
				"10s Running ready main=running restarts:2 last:3",
				"10s Running main=CrashLoopBackOff restarts:2 last:3",
			},
		},
		"restartPolicy OnFailure: success ends the Pod": {
			pod:   exits(corev1.RestartPolicyOnFailure, "0", "2"),
			until: time.Hour,
			want: []string{
				"0s Running ready main=running",
				"2s Succeeded main=exit:0",
			},
		},
		"restartPolicy Never: failure ends the Pod": {
			pod:   exits(corev1.RestartPolicyNever, "7", "0.25"),
			until: time.Hour,
			want: []string{
				"0s Running ready main=running",
				"0.25s Failed main=exit:7",
			},
		},
		"sidecars end with the Pod": {
			pod: func(p *corev1.Pod) {
				exits(corev1.RestartPolicyNever, "0", "1")(p)
				p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			},
			until: time.Hour,
			want: []string{
				"0s Running ready sidecar=running main=running",
				"1s Succeeded sidecar=exit:143 main=exit:0",
			},
		},
		"a container's own restart policy is preferred": {
			pod: func(p *corev1.Pod) {
				exits(corev1.RestartPolicyNever, "0", "1")(p)
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "again", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)})
			},
			until: 3 * time.Second,
			want: []string{
				"0s Running ready main=running again=running",
				"1s Running main=exit:0 again=running restarts:1 last:0",
				"2s Running main=exit:0 again=CrashLoopBackOff restarts:1 last:0",
			},
		},
		"an exit code given to a running Pod ends its containers": {
			pod:     func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever },
			actions: []action{{time.Minute, func(p *corev1.Pod, _ time.Time) { annotate(ExitCodeAnnotation, "1")(p) }}},
			until:   time.Hour,
			want: []string{
				"0s Running ready main=running",
				"1m0s Failed main=exit:1",
			},
		},
		"annotations that cannot be read are shown and ignored": {
			pod:     exits(corev1.RestartPolicyAlways, "0", "soon"),
			actions: []action{{time.Second, func(p *corev1.Pod, _ time.Time) { p.Annotations = nil }}},
			until:   time.Hour,
			want: []string{
				`0s Running ready main=running InvalidSimulation: annotation simulated.millwright.dev/run-seconds: "soon" is not a number of seconds`,
				"1s Running ready main=running",
			},
		},
		"a terminal phase set by another client stays": {
			pod: exits(corev1.RestartPolicyAlways, "1", "60"),
			actions: []action{{time.Second, func(p *corev1.Pod, _ time.Time) {
				p.Status.Phase = corev1.PodSucceeded
			}}},
			until: time.Hour,
			want:  []string{"0s Running ready main=running"},
		},
		"a container that another client makes wait keeps its state": {
			actions: []action{{time.Second, func(p *corev1.Pod, _ time.Time) {
				p.Status.Phase = corev1.PodPending
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
			}}},
			until: time.Hour,
			want: []string{
				"0s Running ready main=running",
				"1s Pending main=ImagePullBackOff",
			},
		},
		"a deleted Pod is removed immediately": {
			actions: []action{{5 * time.Second, deletion(30)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "5s removed"},
		},
		"a Pod that was deleted before it ran is removed": {
			actions: []action{{0, deletion(30)}},
			until:   time.Hour,
			want:    []string{"0s removed"},
		},
		"termination takes the time that the annotation says": {
			pod:     annotate(TerminationSecondsAnnotation, "2.5"),
			actions: []action{{5 * time.Second, deletion(30)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "7.5s removed"},
		},
		"termination takes no longer than the grace period": {
			pod:     annotate(TerminationSecondsAnnotation, "1000"),
			actions: []action{{5 * time.Second, deletion(3)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "8s removed"},
		},
		"nothing exits or restarts while a Pod terminates": {
			pod: func(p *corev1.Pod) {
				exits(corev1.RestartPolicyAlways, "1", "6")(p)
				annotate(TerminationSecondsAnnotation, "10")(p)
			},
			actions: []action{{5 * time.Second, deletion(30)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "15s removed"},
		},
		"a finalizer sees that the containers have ended": {
			pod:     func(p *corev1.Pod) { p.Finalizers = []string{"example.com/last-words"} },
			actions: []action{{5 * time.Second, deletion(30)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "5s Failed main=exit:143", "5s removed"},
		},
		"a Pod that only its finalizer keeps is not removed again": {
			pod:     func(p *corev1.Pod) { p.Finalizers = []string{"example.com/last-words"} },
			actions: []action{{5 * time.Second, deletion(0)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "5s Failed main=exit:143"},
		},
		"a Pod that an API server was about to remove when it was stopped is removed": {
			actions: []action{{5 * time.Second, deletion(0)}},
			until:   time.Hour,
			want:    []string{"0s Running ready main=running", "6s removed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod()
			if tc.pod != nil {
				tc.pod(pod)
			}
			if diff := cmp.Diff(tc.want, history(t, pod, tc.actions, tc.until)); diff != "" {
				t.Errorf("history of the Pod (-want +got):\n%s", diff)
			}
		})
	}
}
