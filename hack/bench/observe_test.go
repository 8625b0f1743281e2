// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
)

func containerThatIs(ready metav1.ConditionStatus, start int64) *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Status:     v1alpha1.ImmortalContainerStatus{StartTimes: start, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}},
	}
}

// awaitSoon tells why a milestone is not reached; nil if it is.
func (o *observer) awaitSoon(t *testing.T, count int, m milestone) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := o.await(ctx, count, m)
	return err
}

func TestARecoveryIsOverWhenTheNextStartIsReadyNotWhileTheLastOneStillIs(t *testing.T) {
	o := newObserver()
	recovered := containersOf(1).phases[1].milestones[0]
	for _, container := range []*v1alpha1.ImmortalContainer{containerThatIs("True", 1), containerThatIs("False", 2)} {
		o.saw(containersSeen, watch.Event{Type: watch.Modified, Object: container}, markOfContainer)
		if err := o.awaitSoon(t, 1, recovered); err == nil || !strings.Contains(err.Error(), "waiting for 1 ImmortalContainers to be Ready in start 2, of which 0 are") {
			t.Errorf("after %v it says %v", container.Status, err)
		}
	}
	o.saw(containersSeen, watch.Event{Type: watch.Modified, Object: containerThatIs("True", 2)}, markOfContainer)
	if err := o.awaitSoon(t, 1, recovered); err != nil {
		t.Error(err)
	}
}

func machineThatHas(positions string, lastFlip *metav1.MicroTime, flip *uselessv1alpha1.Flip) *uselessv1alpha1.Machine {
	return &uselessv1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m"},
		Status: uselessv1alpha1.MachineStatus{
			Replicas: int32(len(positions)), Positions: positions, LastFlipTime: lastFlip, Flip: flip,
			Conditions: []metav1.Condition{{Type: uselessv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

func TestAMachineIsRightWhenAllItsSwitchesAreDownAndNoFlipIsOpen(t *testing.T) {
	once := &metav1.MicroTime{Time: time.Unix(1, 0)}
	for _, test := range []struct {
		machine *uselessv1alpha1.Machine
		mark    string
	}{
		{machineThatHas("ddd", nil, nil), ""},
		{machineThatHas("dddd", nil, nil), allDown},
		{machineThatHas("dudd", once, nil), ""},
		{machineThatHas("dddd", once, &uselessv1alpha1.Flip{}), ""},
		{machineThatHas("dddd", once, nil), allDown},
	} {
		event := watch.Event{Type: watch.Modified, Object: test.machine}
		if _, mark := markOfMachine(event); mark != test.mark {
			t.Errorf("with %+v the mark is %q", test.machine.Status, mark)
		}
	}
}

func TestAWatchThatIsCutOffGoesOnWhereItWas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var begun []string
	deployment := func(name, version string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	first, second := watch.NewFake(), watch.NewFake()
	open := func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		begun = append(begun, options.ResourceVersion)
		if len(begun) == 1 {
			return first, nil
		}
		return second, nil
	}
	o := newObserver()
	if err := o.follow(ctx, deploymentsSeen, metav1.ListOptions{}, open, markOfDeployment); err != nil {
		t.Fatal(err)
	}
	first.Add(deployment("b", "10"))
	first.Add(deployment("a", "9")) // what there is comes in any order
	first.Stop()
	second.Add(deployment("c", "11"))
	if _, err := o.await(ctx, 3, milestone{kind: deploymentsSeen, mark: applied}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"", "10"}; !slices.Equal(begun, want) {
		t.Errorf("it has begun at versions %q, want %q", begun, want)
	}
	cancel()
	second.Stop()
}

func TestTheTimeOfAMilestoneIsThatOfTheLastMarkNotOfWhatWasWatchedLater(t *testing.T) {
	o := newObserver()
	deployment := watch.Event{Type: watch.Modified, Object: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}
	o.saw(deploymentsSeen, deployment, markOfDeployment)
	first, err := o.await(t.Context(), 1, milestone{kind: deploymentsSeen, mark: applied})
	if err != nil {
		t.Fatal(err)
	}
	o.saw(deploymentsSeen, deployment, markOfDeployment) // its status has changed
	again, err := o.await(t.Context(), 1, milestone{kind: deploymentsSeen, mark: applied})
	if err != nil || !again.Equal(first) {
		t.Errorf("it was applied at %v, and later at %v (%v)", first, again, err)
	}
	if got := o.changes(deploymentsSeen); got != 2 {
		t.Errorf("%d changes were counted, want both", got)
	}
}

func TestAMilestoneThatIsNotReachedIsAnError(t *testing.T) {
	m := milestone{kind: containersSeen, mark: "moved", each: 2}
	o := newObserver()
	o.saw(containersSeen, watch.Event{}, func(watch.Event) (key, mark string) { return "one of two", "moved" })
	if err := o.awaitSoon(t, 1, m); err == nil || !strings.Contains(err.Error(), "waiting for 2 "+containersSeen+" to be moved, of which 1 are") {
		t.Errorf("the error is %v", err)
	}
}
