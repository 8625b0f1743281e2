// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"fmt"
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
	// waitingShownAfter is how long something has to be waited for until the status shows it: what is quick costs no write.
	waitingShownAfter = 10 * time.Second
	// waitingDetails is how much of the reason is shown, in bytes.
	waitingDetails = 300
)

// waiting is what a phase waits for, and since when. The status shows it in the message of the condition Progressing, a line for each phase.
// A line changes only when something else is waited for: what is in the status is kept, as is the time in it, by whichever process.
type waiting struct {
	phase.Waiting
	since time.Time
}

// waitingLines are for the phases that have not ended.
func (t *planner) waitingLines() (lines []string) {
	shown := waitingShown(t.o.set.Status)
	keys := slices.SortedFunc(maps.Keys(t.o.waiting), func(a, b phaseKey) int { return cmp.Or(a.action-b.action, a.phase-b.phase) })
	for _, key := range keys {
		p, w := phaseIn(&t.status, key), t.o.waiting[key]
		if p == nil || p.State != v1alpha1.StateRunning && p.State != v1alpha1.StatePending {
			continue
		}
		prefix := waitingPrefix(&t.status, key)
		before, head, line := lineOf(shown, prefix), prefix+w.head(), prefix+w.line()
		switch {
		case before == head && line != head: // now it is known why
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

// head is the part of a line that does not change as long as the same is waited for.
func (w waiting) head() string {
	return w.For + " since " + w.since.UTC().Format(time.RFC3339)
}

func (w waiting) line() string {
	details := strings.Join(strings.Fields(w.Details), " ")
	if len(details) > waitingDetails {
		details = controller.Truncate(details, waitingDetails) + "..."
	}
	if details == "" {
		return w.head()
	}
	return w.head() + ": " + details
}

// waitingPrefix begins the line of a phase, and of no other.
func waitingPrefix(status *v1alpha1.ActionSetStatus, key phaseKey) string {
	kind := "phase"
	if key.phase == phase.Deferred {
		kind = "deferPhase"
	}
	name := phaseIn(status, key).Name
	if len(status.Actions) > 1 {
		return fmt.Sprintf("%s %s of actions[%d] waits for ", kind, name, key.action)
	}
	return fmt.Sprintf("%s %s waits for ", kind, name)
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

// lineOf a phase; "" if there is none.
func lineOf(lines []string, prefix string) string {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// waitingSince returns since when the phase waits for that according to the status; zero if it is not in the status.
func waitingSince(status *v1alpha1.ActionSetStatus, key phaseKey, what string) time.Time {
	if phaseIn(status, key) == nil {
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

// rememberWaiting remembers what a phase waits for, since when it does.
func (m *memory) rememberWaiting(o *observed, key phaseKey, what phase.Waiting) {
	delete(o.waiting, key)
	if what.For == "" {
		delete(m.waiting, key)
		return
	}
	if m.waiting == nil {
		m.waiting = map[phaseKey]waiting{}
	}
	known, waits := m.waiting[key]
	if !waits || known.For != what.For {
		known.since = waitingSince(o.set.Status, key, what.For)
		if known.since.IsZero() {
			known.since = o.now.Truncate(time.Second)
		}
	}
	known.Waiting = what
	m.waiting[key], o.waiting[key] = known, known
}
