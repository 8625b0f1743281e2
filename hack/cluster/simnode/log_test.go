package simnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var logStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestLinesAreSpreadOverTheRun(t *testing.T) {
	lines := linesOf("a\nb\nc\nd", logStart, 4*time.Second)
	run := containerRun{started: logStart}
	for after, want := range map[time.Duration]int{0: 1, 999 * time.Millisecond: 1, time.Second: 2, 3 * time.Second: 4, time.Hour: 4} {
		if got := run.printedBy(lines, logStart.Add(after)); got != want {
			t.Errorf("after %v %d lines are printed, want %d", after, got, want)
		}
	}
	if got := run.end(logStart.Add(2*time.Second)).printedBy(lines, logStart.Add(time.Hour)); got != 3 {
		t.Errorf("a run that was ended in between has printed %d lines, want 3", got)
	}
	if last := lines[3].shown(true); last != "2026-01-01T00:00:03.000000000Z d" {
		t.Errorf("the last line with its time is %q", last)
	}
}

func TestRunIsThatOfTheStatus(t *testing.T) {
	terminated := func(after time.Duration) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(logStart), FinishedAt: metav1.NewTime(logStart.Add(after))}
	}
	pod := newPod()
	status := func(s corev1.ContainerStatus) *corev1.Pod {
		s.Name = "main"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		return pod
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
	for _, previous := range []bool{false, true} {
		if run, err := runOf(status(corev1.ContainerStatus{State: waiting}), "main", previous); err == nil {
			t.Errorf("a container that has not run: %+v", run)
		}
	}
	crashed := corev1.ContainerStatus{State: waiting, LastTerminationState: corev1.ContainerState{Terminated: terminated(time.Minute)}}
	if run, err := runOf(status(crashed), "main", false); err != nil || !run.ended {
		t.Errorf("a container that waits for its restart: %+v, %v", run, err)
	}

	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(logStart)}}
	run, err := runOf(status(corev1.ContainerStatus{RestartCount: 2, State: running}), "main", false)
	if err != nil || run.ended {
		t.Fatalf("a container that runs: %+v, %v", run, err)
	}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		ended  bool
	}{
		"it runs":                 {corev1.ContainerStatus{RestartCount: 2, State: running}, false},
		"a stale cache":           {corev1.ContainerStatus{RestartCount: 1, State: corev1.ContainerState{Terminated: terminated(0)}}, false},
		"it has ended":            {corev1.ContainerStatus{RestartCount: 2, State: corev1.ContainerState{Terminated: terminated(time.Minute)}}, true},
		"it waits for a restart":  {corev1.ContainerStatus{RestartCount: 2, State: waiting, LastTerminationState: crashed.LastTerminationState}, true},
		"it was restarted before": {corev1.ContainerStatus{RestartCount: 3, State: running}, true},
	} {
		if got := run.now(status(tc.status), "main", logStart.Add(time.Hour)); got.ended != tc.ended {
			t.Errorf("%s: ended is %v", name, got.ended)
		}
	}
}
