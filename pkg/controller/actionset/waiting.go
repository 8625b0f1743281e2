// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

const (
	// waitingShownAfter is how long a phase has to wait until the status shows it, so that a short wait costs no write.
	waitingShownAfter = 10 * time.Second
	// waitingDetails is the maximum length of the reason that is shown, in bytes.
	waitingDetails = 300
)

// phaseWait is what a phase waits for, and since when. The status shows it in the message of the condition Progressing, one line for each phase.
// A line changes only when the phase waits for something else: every process keeps the line that is in the status, with its time.
type phaseWait struct {
	phase.Waiting
	since time.Time
}

// waitingLines returns the lines of the run and of the phases that have not ended.
func (t *planner) waitingLines() (lines []string) {
	shown := waitingShown(t.o.set.Status)
	keys := slices.AppendSeq(slices.Clone(t.skipped), maps.Keys(t.o.waiting))
	slices.SortFunc(keys, phaseKey.compare)
	for _, key := range slices.Compact(keys) {
		if !mayWait(&t.status, key) {
			continue
		}
		w, prefix := t.o.waiting[key], waitingPrefix(&t.status, key)
		before, head, line := lineOf(shown, prefix), prefix+w.head(), prefix+w.line()
		switch {
		case w.For == "": // this plan knows nothing about it
			line = before
		case before == head && line != head: // the reason is known now
		case strings.HasPrefix(before, head):
			line = before
		case t.o.now.Sub(w.since) < waitingShownAfter:
			t.requeueAt(w.since.Add(waitingShownAfter))
			line = before
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// head returns the part of a line that does not change as long as the phase waits for the same.
func (w phaseWait) head() string {
	return w.For + " since " + w.since.UTC().Format(time.RFC3339)
}

func (w phaseWait) line() string {
	if details := shortened(w.Details); details != "" {
		return w.head() + ": " + details
	}
	return w.head()
}

// shortened returns the reason that is shown, in one line.
func shortened(details string) string {
	details = strings.Join(strings.Fields(details), " ")
	if len(details) > waitingDetails {
		details = controller.Truncate(details, waitingDetails) + "..."
	}
	return details
}

// mayWait reports whether a status has a line for a phase, or for the run if the key is that of its snapshot.
func mayWait(status *v1alpha1.ActionSetStatus, key phaseKey) bool {
	p := phaseIn(status, key)
	return key == ofSnapshot.phaseKey || p != nil && (p.State == v1alpha1.StateRunning || p.State == v1alpha1.StatePending)
}

// waitingPrefix returns the beginning of such a line. It is unique among the lines.
func waitingPrefix(status *v1alpha1.ActionSetStatus, key phaseKey) string {
	if key == ofSnapshot.phaseKey {
		return "the run waits for "
	}
	return describePhase(status, key) + " waits for "
}

// waitingShown returns the lines that a status has now.
func waitingShown(status *v1alpha1.ActionSetStatus) []string {
	if status == nil {
		return nil
	}
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	if progressing == nil {
		return nil
	}
	return strings.Split(progressing.Message, "\n")
}

// lineOf returns the line with a prefix; "" if there is none.
func lineOf(lines []string, prefix string) string {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// waitingSince returns since when a phase waits for something, according to the status; zero if it is not in the status.
func waitingSince(status *v1alpha1.ActionSetStatus, key phaseKey, what string) time.Time {
	if !mayWait(status, key) {
		return time.Time{}
	}
	rest, found := strings.CutPrefix(lineOf(waitingShown(status), waitingPrefix(status, key)), waitingPrefix(status, key)+what+" since ")
	if !found {
		return time.Time{}
	}
	at, _, _ := strings.Cut(rest, "Z")
	since, err := time.Parse(time.RFC3339, at+"Z")
	if err != nil {
		return time.Time{}
	}
	return since
}

// rememberWaiting remembers what a phase waits for, and since when.
func (m *memory) rememberWaiting(o *observed, key phaseKey, what phase.Waiting) {
	delete(o.waiting, key)
	if what.For == "" {
		delete(m.waiting, key)
		return
	}
	if m.waiting == nil {
		m.waiting = map[phaseKey]phaseWait{}
	}
	known, waits := m.waiting[key]
	if !waits || known.For != what.For {
		known.since = waitingSince(o.set.Status, key, what.For)
		if known.since.IsZero() || known.since.After(o.now) { // the message of a failure may have a line of this kind, too
			known.since = o.now.Truncate(time.Second)
		}
	}
	known.Waiting = what
	m.waiting[key], o.waiting[key] = known, known
}
