// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

func TestASwitchThatIsDeletedComesBackDown(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		a.flip("switch-pdxzk", "up")
		a.took()
		a.erase("switch-pdxzk")
		a.wants("its name is free again",
			"create switch-pdxzk",
			`status of m: 2 "dd", Ready=True Complete`,
			`event Normal SwitchCreated "Created: switch-pdxzk"`)
	})
}

func TestScalingDownDeletesTheNewestFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.scale("m", 3)
		a.wants("up", "create switch-b566m", "create switch-kjfqt",
			`status of m: 3 "ddd", Ready=True Complete`, `event Normal SwitchCreated "Created: switch-b566m, switch-kjfqt"`)
		time.Sleep(time.Minute)
		a.scale("m", 2)
		a.wants("down by one: of two of the same age the last by name", "delete switch-kjfqt by UID",
			`status of m: 2 "dd", Ready=True Complete`, `event Normal SwitchDeleted "Deleted: switch-kjfqt"`)
		a.scale("m", 1)
		a.wants("down to the oldest", "delete switch-b566m by UID",
			`status of m: 1 "d", Ready=True Complete`, `event Normal SwitchDeleted "Deleted: switch-b566m"`)
		time.Sleep(time.Hour)
		a.wants("afterwards")
	})
}

func TestUnseenDeletionIsNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		synctest.Wait()
		a.Freeze(switches.GroupVersionResource)
		a.scale("m", 1)
		a.wants("immediately", "delete switch-pdxzk by UID",
			`status of m: 1 "d", Ready=True Complete`, `event Normal SwitchDeleted "Deleted: switch-pdxzk"`)
		a.edit("m", withLever("down"))
		time.Sleep(time.Minute)
		a.wants("while the watch is stale", `status of m: 1 "d", Ready=True Complete`)
	})
}

func TestAHundredSwitchesAreOneEventOfTenNames(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(100))
		a.operate()
		got := a.took()
		if len(got) != 102 || len(a.ownedBy("uid-m")) != 100 {
			t.Fatalf("%d requests for %d switches, want one each, one status and one event", len(got), len(a.ownedBy("uid-m")))
		}
		event := got[101]
		if strings.Count(event, "switch-") != 10 || !strings.HasSuffix(event, ` and 90 more"`) {
			t.Errorf("the event lists other than ten: %s", event)
		}
	})
}

func TestARefusedCreateDoesNotCauseAHundredErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		room := 4
		quota := apierrors.NewForbidden(switches.GroupResource(), "x", errors.New("exceeded quota: few"))
		a.failIf(func(request string) error {
			if !strings.HasPrefix(request, "create") {
				return nil
			}
			if room == 0 {
				return quota
			}
			room--
			return nil
		})
		a.apply(newMachine(100))
		a.operate()
		synctest.Wait()
		refused, rest := 0, []string{}
		for _, line := range a.took() {
			switch {
			case strings.HasSuffix(line, quota.Error()):
				refused++
			case word(line) != "create":
				rest = append(rest, line)
			}
		}
		// Of 1, 2 and 4 concurrent creates the last three are refused; then one each time our own writes are seen.
		if refused < 3 || refused > 10 {
			t.Errorf("%d creates were refused, want 3 and a few", refused)
		}
		want := []string{`status of m: 4 "dddd", Ready=False CreateFailed`,
			fmt.Sprintf("event Normal SwitchCreated %q", "Created: "+strings.Join(a.ownedBy("uid-m"), ", ")),
			fmt.Sprintf("event Warning FailedCreate %q", quota.Error())}
		if !slices.Equal(rest, want) {
			t.Errorf("apart from the creates\n%q, want\n%q", rest, want)
		}
		one, other := a.ownedBy("uid-m")[0], a.ownedBy("uid-m")[1]
		// The refusal holds up nothing else.
		a.flip(one, "up")
		a.flip(other, "up")
		time.Sleep(10*time.Minute + time.Second)
		a.wantFlips(map[string]string{one: " 00:05", other: " 00:10"})
		events := 0
		for _, line := range a.took() {
			if strings.Contains(line, "FailedCreate") {
				events++
			}
		}
		if events > 0 {
			t.Errorf("the refusal was said %d times more", events)
		}
		a.FailIf(nil)
		time.Sleep(2 * time.Minute)
		if owned := len(a.ownedBy("uid-m")); owned != 100 || a.machine("m").Status.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("%d switches, %s when there is room again", owned, describeStatus(a.machine("m").Status))
		}
	})
}

func TestTerminatingNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		terminating := apierrors.NewForbidden(switches.GroupResource(), "x", errors.New("the namespace is being terminated"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		a.failIf(func(request string) error {
			if word(request) == "create" {
				return terminating
			}
			return nil
		})
		a.apply(newMachine(5))
		_, logged := a.operate()
		time.Sleep(time.Hour)
		a.wants("in peace", "create switch-pdxzk: "+terminating.Error())
		for _, entry := range logged() {
			if entry.Err != nil {
				t.Errorf("logged as an error: %v", entry)
			}
		}
	})
}

func TestANameThatIsTakenUnseenLeadsToTheNextSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		synctest.Wait()
		a.Freeze(switches.GroupVersionResource)
		a.make(switchOf("switch-b566m", ownedByStranger, labelled("x")))
		a.scale("m", 2)
		a.wants("with a cache that does not know it",
			"create switch-b566m: AlreadyExists", "get switches switch-b566m", "create switch-kjfqt",
			`status of m: 2 "dd", Ready=True Complete`, `event Normal SwitchCreated "Created: switch-kjfqt"`)
	})
}

func TestUnseenNameIsNotRetriedWithOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		synctest.Wait()
		a.Freeze(switches.GroupVersionResource)
		a.make(switchOf("switch-b566m", ownedByStranger, labelled("x")))
		a.scale("m", 4)
		time.Sleep(time.Minute)
		tries := map[string]int{}
		for _, line := range a.took() {
			if word(line) == "create" {
				name, _, _ := strings.Cut(strings.TrimPrefix(line, "create "), ":")
				tries[name]++
			}
		}
		for name, n := range tries {
			if n > 1 {
				t.Errorf("%s was tried %d times", name, n)
			}
		}
		if len(tries) != 4 {
			t.Errorf("these were tried: %v, want the one that is taken and three others", tries)
		}
	})
}

func TestInvalidSelectorCreatesNothing(t *testing.T) {
	for name, selector := range map[string]metav1.LabelSelector{
		"the labels of a new switch do not satisfy it": {MatchLabels: map[string]string{"room": "hall"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "floor", Operator: metav1.LabelSelectorOpExists}}},
		"it does not parse": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "floor", Operator: "Near"}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.apply(newMachine(2, withSelector(selector), withLever("up")))
				a.operate()
				a.wants("at first", `status of m: 0 "", Ready=False InvalidSelector, lever seen 00:00:00`, `event Normal SeenUp "Seen: the lever is up"`)
				time.Sleep(time.Hour)
				a.wants("of its lever, which has nothing to do with that", "lever of m down", `status of m: 0 "", Ready=False InvalidSelector`,
					`event Normal Flipped "Moved the lever down"`)
			})
		})
	}
}

// A Machine that matches hundreds of orphans adopts and deletes them in several syncs, between which another Machine has its turn.
func TestOneSyncChangesAHundredSwitches(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		const orphans = 350
		for i := range orphans {
			a.make(switchOf(fmt.Sprintf("orphan-%03d", i), orphaned))
		}
		a.apply(newMachine(2))
		a.operate()
		var got []string
		counts := map[string]int{}
		for _, line := range append(a.took(), "get machines m") {
			counts[word(line)]++
			if line == "get machines m" && len(counts) > 1 { // a sync that adopts begins with it
				got = append(got, fmt.Sprintf("%d adopted, %d deleted", counts["adopt"], counts["delete"]))
				clear(counts)
			}
		}
		want := []string{"100 adopted, 98 deleted", "100 adopted, 100 deleted", "100 adopted, 100 deleted", "50 adopted, 50 deleted"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if got := a.ownedBy("uid-m"); len(got) != 2 || len(a.switches.List()) != 2 {
			t.Errorf("owned are %v, of %d; want two", got, len(a.switches.List()))
		}
		if got, want := describeStatus(a.machine("m").Status), `2 "dd", Ready=True Complete`; got != want {
			t.Errorf("m is %s, want %s", got, want)
		}
	})
}

// While switches have yet to be released, they are neither counted nor flipped nor deleted.
func TestSwitchesToReleaseAreNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(2))
		for i := range 250 {
			sw := switchOf(fmt.Sprintf("sw-%03d", i), labelled("none"), upSince(-3600))
			if i < 3 {
				sw = switchOf(sw.Name)
			}
			a.make(sw)
		}
		a.operate()
		var statuses []string
		for _, line := range a.took() {
			if word(line) == "flip" || strings.HasPrefix(line, "stamp") {
				t.Errorf("got %s, want no change of a position", line)
			}
			if word(line) == "status" {
				statuses = append(statuses, line)
			}
		}
		if want := []string{`status of m: 2 "dd", Ready=False Scaling`, `status of m: 2 "dd", Ready=True Complete`}; !slices.Equal(statuses, want) {
			t.Errorf("got %q, want %q", statuses, want)
		}
		if owned, all := len(a.ownedBy("uid-m")), len(a.switches.List()); owned != 2 || all != 249 {
			t.Errorf("got %d owned of %d, want 2 of 249", owned, all)
		}
	})
}

// A user may name a Machine as the controller of any number of switches.
func TestOneSyncStampsAHundredSwitches(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(100))
		for i := range 350 {
			a.make(switchOf(fmt.Sprintf("sw-%03d", i), up))
		}
		a.operate()
		row, longest := 0, 0
		for _, line := range a.took() {
			if row++; word(line) != "stamp" {
				row = 0
			}
			longest = max(longest, row)
		}
		if longest != 100 {
			t.Errorf("stamps in a row: got %d, want 100", longest)
		}
		if got, want := describeStatus(a.machine("m").Status), `100 "`+strings.Repeat("u", 100)+`", Ready=True Complete`; got != want {
			t.Errorf("m is %s, want %s", got, want)
		}
	})
}

// Switches that are adopted by the next sync are not created before, to be deleted then.
func TestOrphansAreAdoptedInsteadOfCreated(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(100))
		for i := range 100 {
			a.make(switchOf(fmt.Sprintf("stray-%03d", i), labelled("none")))
			a.make(switchOf(fmt.Sprintf("orphan-%03d", i), orphaned))
		}
		a.operate()
		counts := map[string]int{}
		for _, line := range a.took() {
			counts[word(line)]++
		}
		if counts["release"] != 100 || counts["adopt"] != 100 || counts["create"] != 0 || counts["delete"] != 0 {
			t.Errorf("got %v, want 100 released and 100 adopted, and nothing created or deleted", counts)
		}
	})
}

// A hundred switches that cannot be adopted do not keep another one from being adopted.
func TestRejectedAdoptionsHoldUpNoOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(1))
		for i := range 150 {
			a.make(switchOf(fmt.Sprintf("a-%03d", i), orphaned))
		}
		a.make(switchOf("b", orphaned))
		a.failIf(func(request string) error {
			if strings.HasPrefix(request, "adopt a-") {
				return apierrors.NewForbidden(v1alpha1.Resource("switches"), "a", errors.New("denied"))
			}
			return nil
		})
		a.operate()
		time.Sleep(time.Hour)
		if got := a.ownedBy("uid-m"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("owned: got %v, want b", got)
		}
	})
}

// What a sync leaves is due soon, whether or not an event comes.
func TestUnfinishedChangesAreDueSoon(t *testing.T) {
	for what, o := range map[string]*observed{
		"adopt":   observe(newMachine(1, settled("d")), switchOf("a"), switchOf("b", orphaned)),
		"release": observe(newMachine(1, settled("d")), switchOf("a"), switchOf("b", labelled("none"))),
		"delete":  observe(newMachine(1, settled("d")), switchOf("a"), switchOf("b")),
		"stamp":   observe(newMachine(1, settled("u")), switchOf("a", up)),
	} {
		o.machineIsLive = true
		o.progress.claims, o.progress.deletions, o.progress.stamps = maxChanges, maxChanges, maxChanges
		if p := decide(o); p.Again || p.RequeueAfter != controller.StaleCacheDelay {
			t.Errorf("%s: got %q, want the end and a sync after %v", what, describe(o), controller.StaleCacheDelay)
		}
	}
}
