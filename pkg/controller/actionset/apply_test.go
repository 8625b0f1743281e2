// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/fakeapi"
)

// twoActions go at the same time, each with one phase of that kind.
func twoActions(phase func(name string) v1alpha1.BlueprintPhase) *v1alpha1.Blueprint {
	return newBlueprint(map[string]v1alpha1.BlueprintAction{
		"a": {Phases: []v1alpha1.BlueprintPhase{phase("one")}},
		"b": {Phases: []v1alpha1.BlueprintPhase{phase("two")}},
	})
}

func task(name string) v1alpha1.BlueprintPhase { return phaseOf("KubeTask", name) }

func TestFailedStartDelaysNoOther(t *testing.T) {
	inBubble(t, newSet("a", "b"), twoActions(configMapPhase), func(t *testing.T, a *apiServer) {
		refused := 0
		a.refuse = func(request string) error {
			if request == "create configmaps" && a.object == "one" {
				refused++
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		time.Sleep(time.Minute)
		if got, made := a.states(), a.count(configMapsResource); got != "running a[ one=running ] b[ two=complete ]" || made != 1 {
			t.Errorf("the first phase is refused %d times; the states are %s, and %d ConfigMaps were made", refused, got, made)
		}
		a.answerAll()
		a.waitHour()
		if got, made := a.states(), a.count(configMapsResource); got != "complete a[ one=complete ] b[ two=complete ] ended" || made != 2 {
			t.Errorf("the states are %s, and %d ConfigMaps were made", got, made)
		}
	})
}

// A phase whose start is denied fails, although another one cannot be started, and it is not tried again.
func TestFailedStartHidesNoDenial(t *testing.T) {
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"task": {Phases: []v1alpha1.BlueprintPhase{task("one")}},
		"ops":  {Phases: []v1alpha1.BlueprintPhase{configMapPhase("two")}},
	})
	inBubble(t, newSet("task", "ops"), blueprint, func(t *testing.T, a *apiServer) {
		denied := 0
		a.refuse = func(request string) error {
			switch request {
			case "create pods":
				return outage(request)
			case "create configmaps":
				denied++
				return apierrors.NewForbidden(corev1.Resource("configmaps"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.startProcess()
		a.wait(10 * time.Minute)
		if got, want := a.states(), "failed task[ one=running ] ops[ two=failed ]"; got != want || denied != 1 {
			t.Errorf("the start is denied %d times, and the states are %s; want one, and %s", denied, got, want)
		}
	})
}

// A run goes on while it cannot be read whether the Pod of an ended phase is left, and its clean-up ends when it can.
func TestUnknownLeftoverHoldsOnlyTheCleanUp(t *testing.T) {
	deferred := configMapPhase("last")
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{
		"go":   {Phases: []v1alpha1.BlueprintPhase{task("one")}},
		"wait": {Phases: []v1alpha1.BlueprintPhase{waitFor("c")}, DeferPhase: &deferred},
	})
	inBubble(t, newSet("go", "wait"), blueprint, func(t *testing.T, a *apiServer) {
		configMaps := a.createConfigMap("c", "no")
		pods := fakeapi.Of[corev1.Pod](a.Server, podsResource)
		a.startProcess()
		if made := pods.List(); len(made) != 1 {
			t.Fatalf("%d Pods were made", len(made))
		}
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "get pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), a.object, errors.New("no RoleBinding"))
			}
			return nil
		}
		a.mu.Unlock()
		pods.Delete("ns", pods.List()[0].Name)
		a.wait(10 * time.Minute)
		configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
		a.wait(2 * time.Minute)
		if got, want := a.states(), "failed go[ one=failed ] wait[ long=complete defer last=complete ] ended"; got != want {
			t.Errorf("the states are %s, want %s", got, want)
		}
		if set := a.set(); len(set.Finalizers) == 0 || a.secret() == nil {
			t.Error("the clean-up has ended although it is not known what is left")
		}
		a.answerAll()
		a.wait(2 * time.Minute)
		if set := a.set(); len(set.Finalizers) > 0 || a.secret() != nil {
			t.Errorf("in the end the finalizers are %q, and the snapshot is left: %t", set.Finalizers, a.secret() != nil)
		}
	})
}

func TestFailedStopKeepsActionSet(t *testing.T) {
	inBubble(t, newSet("a", "b"), twoActions(task), func(t *testing.T, a *apiServer) {
		a.startProcess()
		if made := a.count(podsResource); made != 2 {
			t.Fatalf("%d Pods were made", made)
		}
		first := ""
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete pods" && (first == "" || first == a.object) {
				first = a.object
				return outage(request)
			}
			return nil
		}
		a.mu.Unlock()
		now := metav1.Now()
		a.edit(func(set *v1alpha1.ActionSet) { set.DeletionTimestamp = &now })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if left, states := a.count(podsResource), a.states(); first == "" || left != 1 || states == "gone" {
			t.Errorf("the deletion of Pod %q is refused; %d Pods are left, and the states are %s", first, left, states)
		}
		a.answerAll()
		a.waitHour()
		if left, states := a.count(podsResource), a.states(); left != 0 || states != "gone" {
			t.Errorf("then %d Pods are left, and the states are %s", left, states)
		}
	})
}

func TestFailedCleanUpDelaysNoOther(t *testing.T) {
	inBubble(t, newSet("a", "b"), twoActions(task), func(t *testing.T, a *apiServer) {
		a.startProcess()
		pods, byPhase := fakeapi.Of[corev1.Pod](a.Server, podsResource), map[string]*corev1.Pod{}
		for _, pod := range pods.List() {
			byPhase[pod.Labels[phase.LabelPhase]] = pod
		}
		first := byPhase["0.0"].Name
		a.mu.Lock()
		a.refuse = func(request string) error {
			if request == "delete pods" && a.object == first {
				return outage(request)
			}
			return nil
		}
		a.mu.Unlock()
		for _, index := range []string{"0.0", "1.0"} {
			pods.Update("ns", byPhase[index].Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if left := a.count(podsResource); len(byPhase) != 2 || left != 1 {
			t.Errorf("the deletion of Pod %q is refused: %d Pods of %d are left", first, left, len(byPhase))
		}
		a.answerAll()
		a.waitHour()
		if left, states := a.count(podsResource), a.states(); left != 0 || states != "complete a[ one=complete ] b[ two=complete ] ended" {
			t.Errorf("then %d Pods are left, and the states are %s", left, states)
		}
	})
}
