// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// started is a Machine whose switches are there: two of m are switch-b566m and switch-pdxzk, two of n switch-2bks5 and
// switch-7z4rd.
func (a *apiServer) started(machines ...*v1alpha1.Machine) (stop func()) {
	for _, machine := range machines {
		a.apply(machine)
	}
	stop, _ = a.operate()
	a.took()
	time.Sleep(time.Minute)
	a.wants("when all is quiet")
	return stop
}

func TestSwitchMovesToAnotherMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2), newMachine(2, named("n")))
		a.label("switch-pdxzk", map[string]string{"machine": "n"})
		got := a.took()
		slices.Sort(got) // two Machines work at the same time
		want := []string{
			"adopt switch-pdxzk",
			"create switch-kjfqt",
			"delete switch-pdxzk by UID",
			`event Normal Adopted "Adopted: switch-pdxzk"`,
			`event Normal Released "Released, because the selector no longer matches: switch-pdxzk"`,
			`event Normal SwitchCreated "Created: switch-kjfqt"`,
			`event Normal SwitchDeleted "Deleted: switch-pdxzk"`,
			"get machines n",
			"release switch-pdxzk",
		}
		if !slices.Equal(got, want) {
			t.Errorf("requests\n%q, want\n%q: neither status changes, and there is no warning", got, want)
		}
		if got, want := a.ownedBy("uid-m"), []string{"switch-b566m", "switch-kjfqt"}; !slices.Equal(got, want) {
			t.Errorf("m owns %v, want %v", got, want)
		}
		if got, want := a.ownedBy("uid-n"), []string{"switch-2bks5", "switch-7z4rd"}; !slices.Equal(got, want) {
			t.Errorf("n owns %v, want %v", got, want)
		}
	})
}

func TestUnlabelledSwitchIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.label("switch-pdxzk", nil)
		a.wants("the slot of the orphan is not free",
			"release switch-pdxzk",
			"create switch-b566m",
			`event Normal Released "Released, because the selector no longer matches: switch-pdxzk"`,
			`event Normal SwitchCreated "Created: switch-b566m"`)
		a.flip("switch-pdxzk", "up")
		time.Sleep(time.Hour)
		a.wants("of the orphan, which stays up")
	})
}

func TestWaitingSwitchIsAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.label("switch-pdxzk", map[string]string{"machine": "later"})
		a.took()
		a.apply(newMachine(1, named("later")))
		a.wants("of the Machine that appears",
			"get machines later",
			"adopt switch-pdxzk",
			`status of later: 1 "d", Ready=True Complete`,
			`event Normal Adopted "Adopted: switch-pdxzk"`)
	})
}

func TestManualSwitchIsAdoptedOrDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.make(switchOf("mine", orphaned, position("up")))
		a.wants("for a Machine that is complete",
			"get machines m", "adopt mine", "delete mine by UID",
			`event Normal Adopted "Adopted: mine"`,
			`event Normal SwitchDeleted "Deleted: mine"`)
		a.scale("m", 2)
		a.took()
		time.Sleep(time.Second)
		a.erase("switch-pdxzk")
		a.make(switchOf("mine-too", orphaned, position("up")))
		time.Sleep(time.Minute)
		if owned := a.ownedBy("uid-m"); len(owned) != 2 {
			t.Errorf("owned are %v, want two", owned)
		}
	})
}

func TestOtherOwnersOfASwitchStay(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		house := metav1.OwnerReference{APIVersion: "v1", Kind: "House", Name: "h", UID: "uid-h"}
		a.make(switchOf("mine", orphaned, func(sw *v1alpha1.Switch) { sw.OwnerReferences = []metav1.OwnerReference{house} }))
		a.started(newMachine(1))
		if owners := a.theSwitch("mine").OwnerReferences; len(owners) != 2 || owners[0].UID != "uid-h" || owners[1].UID != "uid-m" {
			t.Errorf("owned by %v, want the House too", owners)
		}
		a.label("mine", nil)
		a.took()
		if owners := a.theSwitch("mine").OwnerReferences; len(owners) != 1 || owners[0].UID != "uid-h" {
			t.Errorf("owned by %v, want the House alone", owners)
		}
	})
}

func TestForeignSwitchIsReportedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.make(switchOf("theirs", ownedByStranger, position("up")))
		a.apply(newMachine(1))
		a.operate()
		a.wants("after the start",
			"create switch-pdxzk",
			`status of m: 1 "d", Ready=True Complete`,
			`event Normal SwitchCreated "Created: switch-pdxzk"`,
			`event Warning SwitchNotOwned "The selector matches what is not the Machine's, and is not counted: theirs (of House h)"`)
		a.flip("theirs", "left")
		a.flip("switch-pdxzk", "up")
		time.Sleep(time.Hour)
		for _, line := range a.took() {
			if word(line) == "event" && line[:13] == "event Warning" {
				t.Errorf("said again: %s", line)
			}
		}
	})
}

func TestSelectorOfExpressions(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2, withSelector(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "spare", Operator: metav1.LabelSelectorOpDoesNotExist}}})))
		a.label("switch-pdxzk", map[string]string{"spare": "yes"})
		a.took()
		if got, want := a.ownedBy("uid-m"), []string{"switch-b566m", "switch-kjfqt"}; !slices.Equal(got, want) {
			t.Errorf("owned are %v, want %v", got, want)
		}
		a.label("switch-pdxzk", map[string]string{"room": "hall"})
		a.wants("of the one that matches again", "get machines m", "adopt switch-pdxzk", "delete switch-kjfqt by UID",
			`event Normal Adopted "Adopted: switch-pdxzk"`, `event Normal SwitchDeleted "Deleted: switch-kjfqt"`)
	})
}

func TestOverlappingSelectors(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		shared := metav1.LabelSelector{MatchLabels: map[string]string{"room": "hall"}}
		a.started(newMachine(2, withSelector(shared)))
		time.Sleep(time.Minute)
		a.apply(newMachine(2, named("n"), withSelector(shared)))
		a.wants("of the younger",
			"create switch-2bks5", "create switch-7z4rd",
			`status of n: 2 "dd", Ready=False SelectorOverlap`,
			`event Normal SwitchCreated "Created: switch-2bks5, switch-7z4rd"`,
			`event Warning SwitchNotOwned "The selector also matches switches of Machine m"`)
		now := time.Now()
		a.flip("switch-2bks5", "up")
		a.flip("switch-pdxzk", "up")
		time.Sleep(time.Minute)
		due := now.Add(5 * time.Second).UTC().Format(" 04:05")
		a.wantFlips(map[string]string{"switch-2bks5": due, "switch-pdxzk": due})
		if got, want := describeStatus(a.machine("m").Status), `2 "dd", Ready=True Complete`; !strings.HasPrefix(got, want) {
			t.Errorf("the elder is %s, want %s", got, want)
		}
		a.remove("m")
		synctest.Wait() // until the cache has it: the elder would create its switches again, as no garbage collector deletes them here
		a.erase("switch-pdxzk")
		a.erase("switch-b566m")
		synctest.Wait()
		if got, want := describeStatus(a.machine("n").Status), `2 "dd", Ready=True Complete`; !strings.HasPrefix(got, want) {
			t.Errorf("the younger is %s when the elder is gone, want %s", got, want)
		}
	})
}

func TestDeletedMachineIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		a.edit("m", func(m *v1alpha1.Machine) {
			now := metav1.Now()
			m.DeletionTimestamp, m.Finalizers = &now, []string{metav1.FinalizerOrphanDependents}
		})
		synctest.Wait() // until the cache has it
		a.erase("switch-b566m")
		a.label("switch-pdxzk", nil)
		a.make(switchOf("mine", orphaned))
		time.Sleep(time.Hour)
		a.wants("of a Machine that is being deleted")
	})
}

func TestStaleCacheOfDeletedMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(1))
		a.Freeze(machines.GroupVersionResource)
		a.edit("m", func(m *v1alpha1.Machine) {
			now := metav1.Now()
			m.DeletionTimestamp, m.Finalizers = &now, []string{metav1.FinalizerOrphanDependents}
		})
		a.change("switch-pdxzk", func(sw *v1alpha1.Switch) { sw.OwnerReferences = nil }) // as the garbage collector does
		a.wants("of a Machine that is being deleted", "get machines m")
	})
}

func TestMachineOfAnEarlierName(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.started(newMachine(2))
		a.change("switch-pdxzk", func(sw *v1alpha1.Switch) {
			now := metav1.Now()
			sw.DeletionTimestamp, sw.Finalizers = &now, []string{"example.com/slow"}
		})
		a.remove("m")
		a.took()
		again := newMachine(2)
		again.UID = "uid-n"
		a.apply(again)
		a.wants("of the new one",
			"create switch-2bks5", "create switch-7z4rd",
			`status of m: 2 "dd", Ready=True Complete`,
			`event Normal SwitchCreated "Created: switch-2bks5, switch-7z4rd"`)
		a.erase("switch-pdxzk")
		a.erase("switch-b566m")
		time.Sleep(time.Hour)
		a.wants("when the others are gone")
	})
}
