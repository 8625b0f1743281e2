// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// storedByKanister are statuses as Kanister 0.119 leaves them, by what has become of the run: of one action with two phases, which has
// no deferPhase where it does not say so. Whether anything of it may be launched, or what it ends as, is in the tests.
var storedByKanister = map[string]string{
	"complete": `{"state":"complete","error":{"message":""},"progress":{"percentCompleted":"100","lastTransitionTime":"2026-08-20T10:00:00Z"},"actions":[{"name":"go",
		"blueprint":"bp","object":{"apiVersion":"","group":"","resource":"","kind":"Namespace","name":"ns","namespace":"ns"},"deferPhase":{"name":"","state":"","progress":{}},
		"artifacts":{"dump":{"keyValue":{"path":"/backups/one"}}},
		"phases":[{"name":"one","state":"complete","output":{"path":"/backups/one"},"progress":{"progressPercent":"100"}},{"name":"two","state":"complete","progress":{"progressPercent":"100"}}]}]}`,
	"complete, while a deferPhase ran": `{"state":"complete","error":{"message":""},"progress":{"runningPhase":"bye"},"actions":[{"name":"go","blueprint":"bp","object":{},
		"deferPhase":{"name":"bye","state":"pending","progress":{}},"phases":[{"name":"one","state":"complete","progress":{}},{"name":"two","state":"complete","progress":{}}]}]}`,
	"complete, without actions": `{"state":"complete","error":{"message":""},"progress":{}}`,
	"failed": `{"state":"failed","error":{"message":"namespaces \"no-such-ns\" not found"},"progress":{"percentCompleted":"33"},"actions":[{"name":"go","blueprint":"bp","object":{},
		"deferPhase":{"name":"bye","state":"complete","progress":{}},"phases":[{"name":"one","state":"complete","progress":{}},{"name":"two","state":"failed","progress":{}}]}]}`,
	"failed, while another action ran": `{"state":"failed","error":{"message":"no"},"progress":{},"actions":[{"name":"go","blueprint":"bp","object":{},"deferPhase":{"name":"","state":"","progress":{}},
		"phases":[{"name":"one","state":"failed","progress":{}},{"name":"two","state":"pending","progress":{}}]},{"name":"go","blueprint":"bp","object":{},
		"deferPhase":{"name":"","state":"","progress":{}},"phases":[{"name":"one","state":"running","progress":{}},{"name":"two","state":"pending","progress":{}}]}]}`,
	"failed at its start": `{"state":"failed","error":{"message":"Failed to query blueprint: blueprints.cr.kanister.io \"bp\" not found"},"progress":{}}`,
	"running": `{"state":"running","error":{"message":""},"progress":{"runningPhase":"two","percentCompleted":"50"},"actions":[{"name":"go","blueprint":"bp","object":{},
		"deferPhase":{"name":"bye","state":"pending","progress":{}},"artifacts":{"dump":{"keyValue":{"path":"{{ .Phases.one.Output.path }}"}}},
		"phases":[{"name":"one","state":"complete","output":{"path":"/backups/one"},"progress":{"progressPercent":"100"}},{"name":"two","state":"running","progress":{"progressPercent":"0"}}]}]}`,
	"running, nothing begun": `{"state":"running","error":{"message":""},"progress":{},"actions":[{"name":"go","blueprint":"bp","object":{},"deferPhase":{"name":"","state":"","progress":{}},
		"phases":[{"name":"one","state":"pending","progress":{}},{"name":"two","state":"pending","progress":{}}]}]}`,
	"running, without actions": `{"state":"running","error":{"message":""},"progress":{}}`,
	"pending": `{"state":"pending","error":{"message":""},"progress":{},"actions":[{"name":"go","blueprint":"bp","object":{},"deferPhase":{"name":"bye","state":"pending","progress":{}},
		"artifacts":{"dump":{"keyValue":{"path":"{{ .Phases.one.Output.path }}"}}},
		"phases":[{"name":"one","state":"pending","progress":{}},{"name":"two","state":"pending","progress":{}}]}]}`,
	"pending, a phase complete": `{"state":"pending","error":{"message":""},"progress":{},"actions":[{"name":"go","blueprint":"bp","object":{},"deferPhase":{"name":"","state":"","progress":{}},
		"phases":[{"name":"one","state":"complete","progress":{}},{"name":"two","state":"pending","progress":{}}]}]}`,
	"pending, its deferPhase running": `{"state":"pending","error":{"message":""},"progress":{},"actions":[{"name":"go","blueprint":"bp","object":{},"deferPhase":{"name":"bye","state":"running","progress":{}},
		"phases":[{"name":"one","state":"pending","progress":{}},{"name":"two","state":"pending","progress":{}}]}]}`,
	"empty":               `{"error":{"message":""},"progress":{}}`,
	"of an unknown state": `{"state":"Skipped","error":{"message":""},"progress":{}}`,
}

// storedSet is the ActionSet s with a status that Kanister has left.
func storedSet(t *testing.T, name string) *v1alpha1.ActionSet {
	t.Helper()
	set := newSet("go")
	set.Status = &v1alpha1.ActionSetStatus{}
	if err := json.Unmarshal([]byte(storedByKanister[name]), set.Status); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestForeignEndedRunIsNotChanged(t *testing.T) {
	for name := range storedByKanister {
		if !strings.HasPrefix(name, "complete") && !strings.HasPrefix(name, "failed") {
			continue
		}
		for what, change := range map[string]func(*v1alpha1.ActionSet){
			"":            func(*v1alpha1.ActionSet) {},
			", cancelled": func(set *v1alpha1.ActionSet) { set.Spec.Cancel = true },
			", deleted": func(set *v1alpha1.ActionSet) {
				set.DeletionTimestamp = &metav1.Time{Time: noon}
				set.Finalizers = []string{"other/one"}
			},
			", its spec is edited": func(set *v1alpha1.ActionSet) { set.Generation++; set.Spec.Actions = nil },
		} {
			set := storedSet(t, name)
			change(set)
			o := answered(observe(set, threePhases()))
			if got := texts(decide(o)); len(got) > 0 {
				t.Errorf("%s%s: it does %q", name, what, got)
			}
		}
	}
}

func TestDeleteForeignEndedRun(t *testing.T) {
	set := storedSet(t, "complete")
	set.Finalizers = []string{"other/one", Finalizer}
	if got := strings.Join(texts(decide(answered(observe(set, threePhases())))), "; "); got != "remove the finalizer" {
		t.Errorf("it does %q", got)
	}
}

func TestForeignStartedRunFails(t *testing.T) {
	for _, name := range []string{"running", "running, nothing begun", "running, without actions", "pending, a phase complete", "pending, its deferPhase running", "of an unknown state"} {
		set := storedSet(t, name)
		p := decide(answered(observe(set, threePhases())))
		for _, s := range p.Steps {
			switch s.(type) {
			case writeStatus, recordEvent:
			default:
				t.Errorf("%s: it does %q", name, s)
			}
		}
		status := statusOf(p)
		if status == nil || len(p.Asks) > 0 {
			t.Errorf("%s: no status is written; it asks %q", name, p.Asks)
			continue
		}
		failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
		if status.State != v1alpha1.StateFailed || !hasFinished(status) || failed == nil || failed.Status != metav1.ConditionTrue ||
			failed.Reason != v1alpha1.ReasonRunLost || !strings.Contains(failed.Message, "was started by another controller") {
			t.Errorf("%s: it ends as %s, %+v", name, describeStatus(status), failed)
		}
		if len(runningPhases(status)) > 0 {
			t.Errorf("%s: phases run: %s", name, describeStatus(status))
		}
		o := answered(observe(set, threePhases()))
		o.set.Status = stored(t, status)
		if got := texts(decide(o)); len(got) > 0 {
			t.Errorf("%s: after that it does %q", name, got)
		}
	}
}

func TestLostRunKeepsOutputs(t *testing.T) {
	set := storedSet(t, "running")
	status := statusOf(decide(observe(set)))
	if got, want := describeStatus(status), "failed go[ one=complete two=failed defer bye=pending ] ended"; got != want {
		t.Errorf("the states are %s, want %s", got, want)
	}
	if output := status.Actions[0].Phases[0].Output; output == nil || string(output.Raw) != `{"path":"/backups/one"}` || len(status.Actions[0].Artifacts) != 1 {
		t.Errorf("the output is %s, the artifacts are %v", output, status.Actions[0].Artifacts)
	}
}

func TestPendingForeignRunStarts(t *testing.T) {
	for _, name := range []string{"pending", "empty"} {
		inBubble(t, storedSet(t, name), threePhases(), func(t *testing.T, a *apiServer) {
			a.startProcess()
			a.waitHour()
			if got := a.states(); got != allComplete {
				t.Errorf("%s: the states are %s", name, got)
			}
		})
	}
}

// The switch to this controller executes nothing of ActionSets that Kanister has started or ended, and sends no request for the ended ones.
func TestForeignRunsAtSwitch(t *testing.T) {
	for name := range storedByKanister {
		if name == "pending" || name == "empty" {
			continue
		}
		inBubble(t, storedSet(t, name), threePhases(), func(t *testing.T, a *apiServer) {
			a.startProcess()
			a.edit(func(set *v1alpha1.ActionSet) { set.Labels = map[string]string{"a": "b"} })
			a.waitHour()
			a.stopProcess()
			a.startProcess()
			a.waitHour()
			ended := strings.HasPrefix(name, "complete") || strings.HasPrefix(name, "failed")
			for _, request := range a.takeRequests() {
				if ended || request != "update actionsets/status" && request != "get secrets" {
					t.Errorf("%s: %s", name, request)
				}
			}
			if ended {
				a.wantEqual(name+": events", withoutAdded(a.takeEvents()))
			}
			if made := a.count(configMapsResource); made > 0 {
				t.Errorf("%s: %d phases were executed", name, made)
			}
			if set := a.set(); len(set.Finalizers) > 0 {
				t.Errorf("%s: finalizers %v", name, set.Finalizers)
			}
		})
	}
}
