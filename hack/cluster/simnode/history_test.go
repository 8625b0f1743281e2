package simnode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// history plays simulator and API server until the time is over, the Pod is removed, or nothing more will happen.
func history(t *testing.T, pod *corev1.Pod, actions []action, until time.Duration) []string {
	t.Helper()
	// Not a whole second, because those are all that the API keeps.
	begin := time.Date(2026, 1, 1, 12, 0, 0, int(700*time.Millisecond), time.UTC)
	var lines []string
	var deletion, changed time.Time
	now := begin
	for range 1000 {
		for len(actions) > 0 && now.Sub(begin) >= actions[0].at {
			actions[0].do(pod, now)
			throughAPI(t, pod)
			actions = actions[1:]
			if pod.DeletionTimestamp != nil {
				deletion = now
			}
		}
		d := decide(observed{pod: pod, podIP: "10.244.0.1", hostIP: "127.0.0.1", now: now, changed: changed, deletion: deletion})
		switch {
		case d.remove:
			return append(lines, elapsed(begin, now)+" removed")
		case d.status != nil:
			pod.Status = *d.status
			changed = now
			throughAPI(t, pod)
			lines = append(lines, elapsed(begin, now)+" "+summary(pod))
			continue
		case d.after == 0 && len(actions) == 0:
			return lines
		case d.after < 0:
			t.Fatalf("%s: look again in the past, after %v", elapsed(begin, now), d.after)
		case d.after == 0 || len(actions) > 0 && now.Add(d.after).After(begin.Add(actions[0].at)):
			now = begin.Add(actions[0].at)
		default:
			now = now.Add(d.after)
		}
		if now.Sub(begin) > until {
			return lines
		}
	}
	t.Fatalf("no end; so far:\n%s", strings.Join(lines, "\n"))
	return nil
}

// throughAPI does to the Pod what writing and reading does, such as rounding times.
func throughAPI(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	encoded, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	*pod = corev1.Pod{}
	if err := json.Unmarshal(encoded, pod); err != nil {
		t.Fatal(err)
	}
}

func elapsed(begin, now time.Time) string {
	d := now.Sub(begin)
	if d > 0 && d < time.Second {
		return fmt.Sprintf("%gs", d.Seconds())
	}
	return d.String()
}

// summary is a Pod's status in one line.
func summary(pod *corev1.Pod) string {
	words := []string{string(pod.Status.Phase)}
	if c := findCondition(&pod.Status, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		words = append(words, "ready")
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		switch {
		case c.State.Running != nil:
			words = append(words, c.Name+"=running")
		case c.State.Terminated != nil:
			words = append(words, fmt.Sprintf("%s=exit:%d", c.Name, c.State.Terminated.ExitCode))
		case c.State.Waiting != nil:
			words = append(words, c.Name+"="+c.State.Waiting.Reason)
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			words = append(words, fmt.Sprintf("restarts:%d last:%d", c.RestartCount, last.ExitCode))
		}
	}
	if pod.Status.Reason != "" {
		words = append(words, pod.Status.Reason+": "+pod.Status.Message)
	}
	return strings.Join(words, " ")
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid", Generation: 1},
		Spec: corev1.PodSpec{
			NodeName:      "simulated-1",
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "image"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func annotate(name, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, name, value) }
}

func exits(policy corev1.RestartPolicy, exitCode, runSeconds string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.RestartPolicy = policy
		annotate(ExitCodeAnnotation, exitCode)(p)
		if runSeconds != "" {
			annotate(RunSecondsAnnotation, runSeconds)(p)
		}
	}
}

// deletion is what the API server does to a Pod when it is deleted with that grace period.
func deletion(seconds int64) func(*corev1.Pod, time.Time) {
	return func(p *corev1.Pod, now time.Time) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)))
		p.DeletionGracePeriodSeconds = &seconds
	}
}
