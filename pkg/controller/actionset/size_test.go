// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// runWithOutputs is a run of three phases with an output of that number of bytes each. Two are complete, and the third has just succeeded.
func runWithOutputs(t *testing.T, bytes int) observed {
	t.Helper()
	output := func() map[string]any { return map[string]any{"k": strings.Repeat("v", bytes)} }
	names := []string{"one", "two", "three"}
	o := answered(observe(newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(of("KubeTask", names), "KubeTask", "d")})))
	r, refused := checkActions(o)
	if refused != nil {
		t.Fatal(refused.message)
	}
	o.snapshot = r
	status := initialStatus(o, r, nil)
	raw, err := rawOf(output())
	if err != nil {
		t.Fatal(err)
	}
	for p := range status.Actions[0].Phases {
		status.Actions[0].Phases[p].State, status.Actions[0].Phases[p].Output = v1alpha1.StateComplete, raw
	}
	last := &status.Actions[0].Phases[2]
	last.State, last.Output, last.Intent, last.StartedBy = v1alpha1.StateRunning, nil, rawArgs("{}"), "me"
	o.set.Status, o.set.Finalizers = &status, []string{Finalizer}
	o.polled[phaseKey{0, 2}] = phase.Observation{State: phase.Succeeded, Output: output()}
	return o
}

func sizeOfSet(t *testing.T, set *v1alpha1.ActionSet, status *v1alpha1.ActionSetStatus) int {
	t.Helper()
	with := set.DeepCopy()
	with.Status = status
	content, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	return len(content)
}

func TestOutputsTooLargeTogether(t *testing.T) {
	for _, test := range []struct {
		bytes int
		want  string
	}{
		{400 << 10, "running a[ one=complete two=complete three=complete defer d=running ]; start phase 0.defer; clean up phase 0.2"},
		{450 << 10, "failed a[ one=complete two=complete three=failed defer d=running ]; start phase 0.defer; clean up phase 0.2"},
	} {
		o := runWithOutputs(t, test.bytes)
		p := decide(o)
		if got := next(p); got != test.want {
			t.Errorf("%d bytes each: %s, want %s", test.bytes, got, test.want)
		}
		status := statusOf(p)
		if size := sizeOfSet(t, o.set, status); size > maxObject+64<<10 {
			t.Errorf("%d bytes each: the ActionSet has %d bytes", test.bytes, size)
		}
		message := fmt.Sprintf("OutputTooLarge: the output of the phase has as JSON %d bytes; the ActionSet would have ", test.bytes+len(`{"k":""}`))
		if failed := strings.Contains(test.want, "failed"); failed != strings.HasPrefix(status.Error.Message, message) ||
			failed != strings.Contains(status.Error.Message, fmt.Sprintf("and may have %d in all", maxObject)) {
			t.Errorf("%d bytes each: the message is %q", test.bytes, status.Error.Message)
		}
	}
}

func TestOutputSizeIsThatOfJSON(t *testing.T) {
	o := runWithOutputs(t, 10)
	o.polled[phaseKey{0, 2}] = phase.Observation{State: phase.Succeeded, Output: map[string]any{"k": strings.Repeat("\x01", 300<<10)}}
	status := statusOf(decide(o))
	if size := sizeOfSet(t, o.set, status); size > maxObject || !strings.HasPrefix(status.Error.Message, "OutputTooLarge: ") {
		t.Errorf("the ActionSet has %d bytes: %q", size, status.Error.Message)
	}
}

func TestArtifactsTooLarge(t *testing.T) {
	b := newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withArtifacts(actionOf("one"))})
	o := answered(observe(newSet("a"), b))
	o.snapshot, _ = checkActions(o)
	status := initialStatus(o, o.snapshot, nil)
	status.Actions[0].Phases[0].State, status.Actions[0].Phases[0].Intent, status.Actions[0].Phases[0].StartedBy = v1alpha1.StateRunning, rawArgs("{}"), "me"
	o.set.Status = &status
	o.polled[phaseKey{0, 0}] = phase.Observation{State: phase.Succeeded}
	o.artifacts = map[int]renderedArtifacts{0: {artifacts: map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: strings.Repeat("a", maxObject)}}}}
	after := statusOf(decide(o))
	failed := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionFailed)
	if failed == nil || failed.Reason != v1alpha1.ReasonArtifactsFailed || !strings.HasPrefix(failed.Message, "ArtifactsTooLarge: the output artifacts of action a have") {
		t.Errorf("it ends as %s, %+v", describeStatus(after), failed)
	}
	if size := sizeOfSet(t, o.set, after); size > 10<<10 {
		t.Errorf("the ActionSet has %d bytes", size)
	}
}

func TestIntentTooLarge(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("pending", "pending", "pending"))
	o.prepared[phaseKey{0, 0}] = preparation{intent: map[string]any{"objects": strings.Repeat("o", maxObject)}}
	if got, want := next(decide(o)), "failed a[ one=failed two=pending defer d=running ]; start phase 0.defer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBlueprintTooLargeForStatus(t *testing.T) {
	action := actionOf("one")
	action.OutputArtifacts = map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: strings.Repeat("a", 700<<10)}}
	set := newSet("a")
	set.Annotations = map[string]string{"large": strings.Repeat("a", 700<<10)}
	o := answered(observe(set, newBlueprint(map[string]v1alpha1.BlueprintAction{"a": action})))
	status := statusOf(decide(o))
	if !hasFinished(status) || !strings.Contains(status.Error.Message, "and may have") || len(status.Actions) > 0 {
		t.Errorf("the states are %s: %q", describeStatus(status), status.Error.Message)
	}
}

func TestFailureMessageLimit(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("complete", "running", ""))
	o.polled[phaseKey{0, 1}] = phase.Observation{State: phase.Failed, Message: strings.Repeat("é", 1<<20)}
	p := decide(o)
	status := statusOf(p)
	if size := sizeOfSet(t, o.set, status); size > 4*maxMessage || !strings.HasSuffix(status.Error.Message, " ... (shortened)") {
		t.Errorf("the ActionSet has %d bytes, and the message ends with %q", size, status.Error.Message[len(status.Error.Message)-20:])
	}
	for _, s := range p.Steps {
		if event, ok := s.(recordEvent); ok && len(event.message) > 1024 {
			t.Errorf("an event has a message of %d bytes", len(event.message))
		}
	}
}

// The forms in which API servers refuse what is too large.
var refusals = map[string]func() error{
	"etcd": func() error { return serverError(http.StatusInternalServerError, "etcdserver: request is too large") },
	"the client of etcd": func() error {
		return serverError(http.StatusInternalServerError, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2172357 vs. 2097152)")
	},
	"the API server": func() error { return apierrors.NewRequestEntityTooLargeError("limit is 3145728") },
}

func serverError(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// limitStatus makes the API server reject statuses with more than that number of bytes.
func (a *apiServer) limitStatus(bytes int, refusal func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = func(status *v1alpha1.ActionSetStatus) error {
		content, err := json.Marshal(status)
		a.must(err)
		if len(content) > bytes {
			return refusal()
		}
		return nil
	}
}

// A limit that is lower than ours, from which nothing is known before it is met.
func TestStatusTooLargeCancelsRun(t *testing.T) {
	for name, refusal := range refusals {
		inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
			b := threePhases()
			action := b.Actions["go"]
			action.OutputArtifacts = map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: strings.Repeat("a", 20<<10)}}
			b.Actions["go"] = action
			a.blueprints.Update("ns", b.Name, func(stored *v1alpha1.Blueprint) { stored.Actions = b.Actions })
			a.refuse = func(request string) error {
				if a.set().Status != nil && a.limit == nil {
					a.mu.Unlock()
					a.limitStatus(10<<10, refusal)
					a.mu.Lock()
				}
				return nil
			}
			a.startProcess()
			a.waitHour()
			status := a.set().Status
			failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
			if failed == nil || failed.Reason != v1alpha1.ReasonStatusTooLarge || !strings.Contains(failed.Message, refusal().Error()) {
				t.Errorf("%s: the states are %s, %+v", name, a.states(), failed)
			}
			if !strings.Contains(a.states(), "defer bye=complete ] ended") {
				t.Errorf("%s: its deferPhase has not run: %s", name, a.states())
			}
			if requests := strings.Count(strings.Join(a.takeRequests(), ", "), "actionsets/status"); requests > 8 {
				t.Errorf("%s: %d statuses were written", name, requests)
			}
			if finalizers := a.set().Finalizers; len(finalizers) > 0 || a.count(secretsResource) > 0 {
				t.Errorf("%s: finalizers %v, %d Secrets", name, finalizers, a.count(secretsResource))
			}
		})
	}
}

func TestTooLargeBeforeStartRejects(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		b := threePhases()
		action := b.Actions["go"]
		action.OutputArtifacts = map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: strings.Repeat("a", 20<<10)}}
		b.Actions["go"] = action
		a.blueprints.Update("ns", b.Name, func(stored *v1alpha1.Blueprint) { stored.Actions = b.Actions })
		a.limitStatus(10<<10, refusals["etcd"])
		a.startProcess()
		a.waitHour()
		if got := a.states(); got != "failed ended" || a.count(configMapsResource) > 0 || a.count(secretsResource) > 0 || len(a.set().Finalizers) > 0 {
			t.Errorf("the states are %s, with finalizers %v, %d phases, %d Secrets", got, a.set().Finalizers, a.count(configMapsResource), a.count(secretsResource))
		}
	})
}

// Users have filled the object themselves.
func TestSmallStatusTooLarge(t *testing.T) {
	for _, starts := range []bool{false, true} {
		inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
			if starts {
				a.refuse = func(request string) error {
					if request == "create configmaps" {
						return outage(request)
					}
					return nil
				}
				a.startProcess()
				a.stopProcess()
			}
			a.limitStatus(0, refusals["etcd"])
			a.answerAll()
			a.startProcess()
			a.waitHour()
			a.takeRequests()
			a.waitHour()
			if requests := a.takeRequests(); starts == false && len(requests) > 0 {
				t.Errorf("starts %t: requests in an hour: %q", starts, requests)
			}
			a.delete()
			a.waitHour()
			if got := a.states(); got != "gone" {
				t.Errorf("starts %t: when it is deleted the states are %s", starts, got)
			}
		})
	}
}
