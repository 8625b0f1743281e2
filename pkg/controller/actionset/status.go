// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// initialStatus returns the status of a run that starts: no phase has begun.
func initialStatus(o observed, r *snapshot, snapshot *v1alpha1.RunSnapshot) v1alpha1.ActionSetStatus {
	started := metav1.NewTime(o.now.Truncate(time.Second))
	status := v1alpha1.ActionSetStatus{State: v1alpha1.StateRunning, Actions: actionStatuses(r), StartTime: &started, Snapshot: snapshot}
	if o.set.Status != nil {
		status.Conditions = o.set.Status.DeepCopy().Conditions
	}
	return status
}

// actionStatuses returns the statuses of actions of which nothing has begun.
func actionStatuses(r *snapshot) []v1alpha1.ActionStatus {
	statuses := make([]v1alpha1.ActionStatus, len(r.Actions))
	for i := range r.Actions {
		action := &r.Actions[i]
		status := v1alpha1.ActionStatus{Name: action.Spec.Name, Object: action.Spec.Object, Blueprint: action.Spec.Blueprint}
		for _, p := range action.Blueprint.Phases {
			status.Phases = append(status.Phases, v1alpha1.Phase{Name: p.Name, State: v1alpha1.StatePending})
		}
		if deferred := action.Blueprint.DeferPhase; deferred != nil {
			status.DeferPhase = v1alpha1.Phase{Name: deferred.Name, State: v1alpha1.StatePending}
		}
		if templates := action.Blueprint.OutputArtifacts; len(templates) > 0 {
			status.Artifacts = make(map[string]v1alpha1.Artifact, len(templates))
			for name, template := range templates {
				status.Artifacts[name] = *template.DeepCopy()
			}
		}
		statuses[i] = status
	}
	return statuses
}

// launchingInterval is how often a status is written to show another reason why the run cannot start.
const launchingInterval = time.Minute

// waitingStatus returns the status of a run that cannot start yet, with what it waits for.
func waitingStatus(o observed, what phase.Waiting) v1alpha1.ActionSetStatus {
	t := newPlanner(o, nil, v1alpha1.ActionSetStatus{State: v1alpha1.StatePending, ObservedGeneration: o.set.Generation})
	message := what.For
	if details := shortened(what.Details); details != "" {
		message += ": " + details
	}
	if o.set.Status != nil {
		t.status.Conditions = o.set.Status.DeepCopy().Conditions
	}
	if before := launching(&t.status); before != nil && o.now.Sub(o.launchingShown) < launchingInterval {
		message = before.Message
	}
	t.setCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonLaunching, message)
	return t.status
}

// launching returns the condition with the reason why a run cannot start yet; nil if there is none.
func launching(status *v1alpha1.ActionSetStatus) *metav1.Condition {
	if status == nil {
		return nil
	}
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	if progressing == nil || progressing.Reason != v1alpha1.ReasonLaunching {
		return nil
	}
	return progressing
}

// rejectedStatus returns the status of an ActionSet that was rejected before anything was run.
func rejectedStatus(o observed, reason string, r rejection) v1alpha1.ActionSetStatus {
	t := newPlanner(o, nil, v1alpha1.ActionSetStatus{ObservedGeneration: o.set.Generation})
	if o.set.Status != nil {
		t.status.Conditions = o.set.Status.DeepCopy().Conditions
	}
	t.status.Actions = r.actions
	if reason == v1alpha1.ReasonCancelRequested {
		t.setCondition(v1alpha1.ConditionCancelled, metav1.ConditionTrue, reason, r.message)
	}
	t.setFailure(reason, r.message)
	t.endCondition(v1alpha1.ConditionFailed)
	t.status.CompletionTime, t.status.LastEvent = t.seconds(), lastEvent(r.events)
	if t.size() > maxObject {
		t.status.Actions = nil
	}
	return t.status
}

// phaseIn returns a phase of the status; nil if there is none.
func phaseIn(status *v1alpha1.ActionSetStatus, key phaseKey) *v1alpha1.Phase {
	if status == nil || key.action < 0 || key.action >= len(status.Actions) {
		return nil
	}
	action := &status.Actions[key.action]
	switch {
	case key.phase == phase.Deferred:
		return &action.DeferPhase
	case key.phase >= 0 && key.phase < len(action.Phases):
		return &action.Phases[key.phase]
	default:
		return nil
	}
}

// runningPhases returns the phases whose intent is recorded and whose end is not.
func runningPhases(status *v1alpha1.ActionSetStatus) (keys []phaseKey) {
	for i := range status.Actions {
		for p := range status.Actions[i].Phases {
			if status.Actions[i].Phases[p].State == v1alpha1.StateRunning {
				keys = append(keys, phaseKey{i, p})
			}
		}
		if status.Actions[i].DeferPhase.State == v1alpha1.StateRunning {
			keys = append(keys, phaseKey{i, phase.Deferred})
		}
	}
	return keys
}

// hasSucceeded reports whether all phases of an action are complete.
func hasSucceeded(action *v1alpha1.ActionStatus) bool {
	for i := range action.Phases {
		if action.Phases[i].State != v1alpha1.StateComplete {
			return false
		}
	}
	return action.DeferPhase.State == "" || action.DeferPhase.State == v1alpha1.StateComplete
}

// cancelled reports whether it is recorded that the run was cancelled.
func (t *planner) cancelled() bool {
	return meta.IsStatusConditionTrue(t.status.Conditions, v1alpha1.ConditionCancelled)
}

// cancelledSince returns when the run was cancelled; zero if it was not.
func (t *planner) cancelledSince() time.Time {
	if !t.cancelled() {
		return time.Time{}
	}
	return meta.FindStatusCondition(t.status.Conditions, v1alpha1.ConditionCancelled).LastTransitionTime.Time
}

func cancelMessage(reason string) string {
	if reason == v1alpha1.ReasonDeleted {
		return "Cancelled: the ActionSet was deleted"
	}
	return "Cancelled: spec.cancel is true"
}

func (t *planner) setCondition(conditionType string, status metav1.ConditionStatus, reason, message string) {
	controller.SetCondition(&t.status.Conditions, t.seconds().Time, t.o.set.Generation, conditionType, status, reason, message)
}

// setFailure records a failure. Other actions continue.
func (t *planner) setFailure(reason, message string) {
	message = shorten(message, maxMessage)
	t.status.State, t.status.Error.Message = v1alpha1.StateFailed, message
	t.setCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, failureMessage(&t.status, reason))
}

// endCondition records that the run has ended, with the reason of the last failure if there is one.
func (t *planner) endCondition(conditionType string) {
	reason, message := v1alpha1.ReasonCompleted, ""
	if conditionType == v1alpha1.ConditionFailed {
		progressing := meta.FindStatusCondition(t.status.Conditions, v1alpha1.ConditionProgressing)
		reason, message = progressing.Reason, failureMessage(&t.status, progressing.Reason)
	}
	t.setCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, reason, message)
	t.setCondition(conditionType, metav1.ConditionTrue, reason, message)
}

// maxRunningShown is the maximum number of names in runningPhase, which is a column of kubectl get.
const maxRunningShown = 10

// joinRunning joins the names of phases that run.
func joinRunning(names []string) string {
	if more := len(names) - maxRunningShown; more > 0 {
		names = append(names[:maxRunningShown:maxRunningShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ",")
}

// summarize updates the parts of the status that summarize all phases.
func (t *planner) summarize() {
	t.status.ObservedGeneration = t.o.set.Generation
	if t.status.CompletionTime == nil {
		reason, lines := v1alpha1.ReasonRunning, t.waitingLines()
		progressing := meta.FindStatusCondition(t.status.Conditions, v1alpha1.ConditionProgressing)
		if progressing != nil && t.status.State == v1alpha1.StateFailed {
			reason = progressing.Reason
			lines = append([]string{failureMessage(&t.status, reason)}, lines...)
		}
		t.setCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, strings.Join(lines, "\n"))
	}
	var names []string
	for _, key := range runningPhases(&t.status) {
		names = append(names, phaseIn(&t.status, key).Name)
	}
	progress := v1alpha1.ActionProgress{RunningPhase: joinRunning(names), LastTransitionTime: t.status.Progress.LastTransitionTime}
	phases, percent := 0, 0
	for i := range t.status.Actions {
		for p := range t.status.Actions[i].Phases {
			of := &t.status.Actions[i].Phases[p].Progress
			done, _ := strconv.Atoi(of.ProgressPercent) // 0 if there is none
			phases, percent = phases+1, percent+done
			progress.SizeDownloadedB += of.SizeDownloadedB
			progress.SizeUploadedB += of.SizeUploadedB
			progress.EstimatedDownloadSizeB += of.EstimatedDownloadSizeB
			progress.EstimatedUploadSizeB += of.EstimatedUploadSizeB
		}
	}
	switch {
	case t.status.State == v1alpha1.StateComplete:
		progress.PercentCompleted = "100"
	case phases > 0:
		progress.PercentCompleted = strconv.Itoa(percent / phases)
	}
	if !equality.Semantic.DeepEqual(t.status.Progress, progress) {
		progress.LastTransitionTime = t.seconds()
		t.status.Progress = progress
	}
}

// recordProgress records the progress of a running phase, at most every progressInterval.
func (t *planner) recordProgress(p *v1alpha1.Phase, found phase.Progress) {
	progress := v1alpha1.PhaseProgress{
		SizeDownloadedB: found.SizeDownloaded, SizeUploadedB: found.SizeUploaded,
		EstimatedDownloadSizeB: found.EstimatedDownloadSize, EstimatedUploadSizeB: found.EstimatedUploadSize,
		EstimatedTimeSeconds: int64(found.EstimatedTime.Seconds()),
		LastTransitionTime:   p.Progress.LastTransitionTime,
	}
	if found.Percent > 0 {
		progress.ProgressPercent = strconv.Itoa(min(found.Percent, 99)) // 100 is for a phase that has ended
	}
	if equality.Semantic.DeepEqual(p.Progress, progress) {
		return
	}
	if last := p.Progress.LastTransitionTime; last != nil && t.o.now.Sub(last.Time) < progressInterval {
		t.requeueAt(last.Add(progressInterval))
		return
	}
	progress.LastTransitionTime = t.seconds()
	p.Progress = progress
}

// objectOf decodes a JSON object, nil for nothing. Whole numbers stay integers, because templates print them.
func objectOf(raw *runtime.RawExtension) (object map[string]any, err error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	err = json.Unmarshal(raw.Raw, &object)
	return object, err
}

// describeStatus returns the states in a status, for logs. It contains nothing of the outputs of phases.
func describeStatus(status *v1alpha1.ActionSetStatus) string {
	var b strings.Builder
	fmt.Fprint(&b, status.State)
	for i := range status.Actions {
		action := &status.Actions[i]
		fmt.Fprintf(&b, " %s[", action.Name)
		for p := range action.Phases {
			fmt.Fprintf(&b, " %s=%s", action.Phases[p].Name, action.Phases[p].State)
		}
		if action.DeferPhase.State != "" {
			fmt.Fprintf(&b, " defer %s=%s", action.DeferPhase.Name, action.DeferPhase.State)
		}
		b.WriteString(" ]")
	}
	if hasFinished(status) {
		b.WriteString(" ended")
	}
	return b.String()
}
