// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

func TestReadyReportsHealth(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(p *parent.Problem) parent.Failures { return parent.Failures{Problem: p, General: true} }
	problem := func(reason string) *parent.Problem { return &parent.Problem{Reason: reason, Message: "why"} }
	for name, test := range map[string]struct {
		health health
		want   string
	}{
		"parents are synced":             {health{synced: true}, "True Serving"},
		"caches are being filled":        {health{}, "False Starting"},
		"a hook fails":                   {health{synced: true, failures: of(problem("HookUnreachable"))}, "False HookUnreachable"},
		"one parent fails":               {health{synced: true, failures: parent.Failures{Problem: problem("HookFailed")}}, "True ParentsFailing"},
		"an older one has all parents":   {health{synced: true, overlap: problem("ParentsOverlap"), failures: of(problem("HookUnreachable"))}, "False ParentsOverlap"},
		"finalizers cannot be removed":   {health{synced: true, finalizers: problem("Forbidden"), overlap: problem("ParentsOverlap")}, "False Forbidden"},
		"the spec is invalid":            {health{synced: true, problem: problem("InvalidSpec"), failures: of(problem("HookFailed"))}, "False InvalidSpec"},
		"a right is missing for a watch": {health{problem: problem("Forbidden")}, "False Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			cc := controllerWith()
			status := statusOf(declared(cc), test.health, now)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if got := fmt.Sprintf("%s %s", ready.Status, ready.Reason); got != test.want || ready.ObservedGeneration != 7 || status.ObservedGeneration != 7 {
				t.Errorf("got %+v, want %s", ready, test.want)
			}
			if status.Children != "configmaps" {
				t.Errorf("the column of children is %q", status.Children)
			}
			status.SetOn(cc)
			if diff := cmp.Diff(status, statusOf(declared(cc), test.health, now.Add(time.Hour))); diff != "" {
				t.Errorf("the same health has another status an hour later:\n%s", diff)
			}
		})
	}
}

func TestFailingParentsAreCounted(t *testing.T) {
	problem := &parent.Problem{Reason: "HookChildInvalid", Message: "it has no name"}
	got := failing(declared(controllerWith()), parent.Failures{Problem: problem, Parent: "things.example.com ns/a", Failing: 3, Parents: 40})
	if want := "3 of 40 parents have a problem, such as things.example.com ns/a: HookChildInvalid: it has no name"; got.Message != want {
		t.Errorf("got %q, want %q", got.Message, want)
	}
}
