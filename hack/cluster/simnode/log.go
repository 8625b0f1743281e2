package simnode

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// containerRun is one run of a container, from a start to an end.
type containerRun struct {
	// restarts is how often the container had been restarted when the run began.
	restarts int32
	started  time.Time
	// ended: it has, and prints nothing after printsUntil.
	ended       bool
	printsUntil time.Time
}

// runOf returns the run of the container whose log a kubelet would serve: the present one, or the last one if it waits for a restart;
// the one before that if previous is set.
func runOf(pod *corev1.Pod, container string, previous bool) (containerRun, error) {
	status := statusOf(pod, container)
	if status == nil {
		return containerRun{}, fmt.Errorf("container %q in pod %q is waiting to start", container, pod.Name)
	}
	last := status.LastTerminationState.Terminated
	switch {
	case previous && last == nil:
		return containerRun{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous:
		return endedRun(last), nil
	case status.State.Running != nil:
		return containerRun{restarts: status.RestartCount, started: status.State.Running.StartedAt.Time}, nil
	case status.State.Terminated != nil:
		return endedRun(status.State.Terminated), nil
	case last != nil:
		return endedRun(last), nil
	}
	reason := ""
	if status.State.Waiting != nil && status.State.Waiting.Reason != "" {
		reason = ": " + status.State.Waiting.Reason
	}
	return containerRun{}, fmt.Errorf("container %q in pod %q is waiting to start%s", container, pod.Name, reason)
}

// endedRun returns a run that has ended. The times in a status are rounded down to seconds: a run that ended by itself has printed all
// of its lines.
func endedRun(t *corev1.ContainerStateTerminated) containerRun {
	return containerRun{started: t.StartedAt.Time, ended: true, printsUntil: t.FinishedAt.Add(time.Second)}
}

// now returns the run as a newer status of its Pod shows it. An older one, in which it has not begun, changes nothing.
func (r containerRun) now(pod *corev1.Pod, container string, now time.Time) containerRun {
	status := statusOf(pod, container)
	switch {
	case status == nil || status.RestartCount < r.restarts:
	case status.RestartCount > r.restarts:
		return r.end(now)
	case status.State.Terminated != nil:
		return endedRun(status.State.Terminated)
	case status.State.Waiting != nil && status.LastTerminationState.Terminated != nil:
		return endedRun(status.LastTerminationState.Terminated)
	}
	return r
}

// end returns the run, ended at that time.
func (r containerRun) end(at time.Time) containerRun {
	r.ended, r.printsUntil = true, at
	return r
}

// statusOf returns the status of a container, nil if it has none yet.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == container {
				return &statuses[i]
			}
		}
	}
	return nil
}

// logLine is a line that a container prints.
type logLine struct {
	at   time.Time
	text string // with its line break, except for an unfinished last line
}

// linesOf returns the lines of a text that a container prints from its start, spread evenly over a time.
func linesOf(text string, start time.Time, spread time.Duration) []logLine {
	var lines []logLine
	for part := range strings.Lines(text) {
		lines = append(lines, logLine{text: part})
	}
	for i := range lines {
		lines[i].at = start.Add(time.Duration(float64(spread) * float64(i) / float64(len(lines))))
	}
	return lines
}

// printedBy returns how many of the lines the run has printed by now.
func (r containerRun) printedBy(lines []logLine, now time.Time) int {
	if r.ended {
		now = r.printsUntil
	}
	for i, line := range lines {
		if line.at.After(now) {
			return i
		}
	}
	return len(lines)
}

// firstShown returns the index of the first line that the options select, of those that are printed.
func firstShown(lines []logLine, printed int, options *corev1.PodLogOptions, now time.Time) int {
	since := time.Time{}
	switch {
	case options.SinceSeconds != nil:
		since = now.Add(-time.Duration(*options.SinceSeconds) * time.Second)
	case options.SinceTime != nil:
		since = options.SinceTime.Time
	}
	first := 0
	if options.TailLines != nil {
		first = max(0, printed-int(min(*options.TailLines, int64(printed))))
	}
	for first < printed && lines[first].at.Before(since) {
		first++
	}
	return first
}

// logTime is the form of times in logs, as that of a kubelet.
const logTime = "2006-01-02T15:04:05.000000000Z07:00"

// shown returns the line as it is sent.
func (l logLine) shown(timestamps bool) string {
	if !timestamps {
		return l.text
	}
	return l.at.UTC().Format(logTime) + " " + l.text
}
