// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// createDense creates a Blueprint that takes about this much memory when it is decoded as an object of any kind, in MiB, and fifty times less as JSON. It
// returns a reference to it.
func (a *apiServer) createDense(name string, mebibytes int) v1alpha1.ObjectReference {
	dense := phaseOf("KubeTask", "dense")
	dense.Args = rawArgs(`{"a":[` + strings.Repeat(`{"":0},`, mebibytes<<20/400) + `0]}`)
	a.blueprints.Create(&v1alpha1.Blueprint{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Actions:    map[string]v1alpha1.BlueprintAction{"unused": {Phases: []v1alpha1.BlueprintPhase{dense}}},
	})
	return v1alpha1.ObjectReference{
		Group: v1alpha1.GroupName, APIVersion: v1alpha1.GroupVersion.Version, Resource: "blueprints", Namespace: "ns", Name: name,
	}
}

// Subjects are refused by the memory that they take, each and together.
func TestSubjectsTakeMemory(t *testing.T) {
	for name, test := range map[string]struct {
		subjects []int // MiB
		message  string
	}{
		"some":     {[]int{4, 4, 4}, ""},
		"one":      {[]int{20}, "the subject blueprints.cr.kanister.io dense-0: ObjectTooLarge: the object takes more than 16777216 bytes of memory when it is read"},
		"together": {[]int{4, 4, 4, 4, 4}, "the subjects of the actions take more than 16777216 bytes of memory together: run fewer actions at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
				set := newSet()
				for i, mebibytes := range test.subjects {
					action := newSet("go").Spec.Actions[0]
					action.Object = a.createDense(fmt.Sprint("dense-", i), mebibytes)
					set.Spec.Actions = append(set.Spec.Actions, action)
				}
				a.create(set)
				a.startProcess()
				status := a.set().Status
				if hasStarted(status) != (test.message == "") || !hasFinished(status) || !strings.Contains(status.Error.Message, test.message) {
					t.Errorf("got %s: %q, want %q", describeStatus(status), status.Error.Message, test.message)
				}
			})
		})
	}
}

// A run needs a turn to decode a subject that takes much memory, when it starts and when another process continues it with its snapshot. Each such subject is
// read once without a turn.
func TestDenseSubjectsNeedTurns(t *testing.T) {
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		set := newSet("go")
		set.Spec.Actions[0].Object = a.createDense("dense", 8)
		a.create(set)
		withoutTurn := func(when string) {
			t.Helper()
			lead := a.startStandby()
			for i := range maxLargeSyncsOfNamespace {
				a.controller.largeSyncs.take(cache.NewObjectName("ns", fmt.Sprint("other-", i)), inOrder)
			}
			before := a.set().Status
			lead(16)
			a.wait(10 * time.Minute)
			if diff := cmp.Diff(before, a.set().Status); diff != "" {
				t.Errorf("%s, without a turn (-before +after):\n%s", when, diff)
			}
		}
		withoutTurn("at the start")
		a.takeRequests()
		const others = 5
		for i := range others {
			other := newSet("go")
			other.Name, other.UID, other.Spec.Actions[0].Object = fmt.Sprint("same-", i), "", set.Spec.Actions[0].Object
			a.create(other)
		}
		a.wait(time.Minute)
		read := slices.DeleteFunc(a.takeRequests(), func(request string) bool { return request != "get blueprints" })
		if len(read) != others { // the Blueprints that they name
			t.Errorf("%d others with the same subject read %d Blueprints without a turn", others, len(read))
		}
		for i := range others {
			a.sets.Delete("ns", fmt.Sprint("same-", i))
		}
		a.wait(time.Minute)
		a.refuse = func(request string) error {
			if request == "create configmaps" {
				return errors.New("an outage")
			}
			return nil
		}
		a.controller.largeSyncs.end(cache.NewObjectName("ns", "other-0"))
		a.waitInOutage()
		if !hasStarted(a.set().Status) {
			t.Fatalf("it does not start with a turn: %s", describeStatus(a.set().Status))
		}
		a.stopProcess()
		a.answerAll()
		withoutTurn("when it is continued")
		a.controller.largeSyncs.end(cache.NewObjectName("ns", "other-0"))
		a.waitHour()
		if got := a.states(); got != allComplete {
			t.Errorf("with a turn: %s", got)
		}
		a.controller.largeSubjects.Add(subjectKeyOf(&set.Spec.Actions[0].Object, "ns"), nil)
		a.blueprints.Update("ns", "dense", func(b *v1alpha1.Blueprint) { b.Actions = nil })
		small := newSet("go")
		small.Name, small.UID, small.Spec.Actions[0].Object = "small", "", set.Spec.Actions[0].Object
		a.create(small)
		a.waitHour()
		if large := a.controller.largeSubjects.Len(); large > 0 {
			t.Errorf("when the subject is small, %d are remembered as large", large)
		}
	})
}
