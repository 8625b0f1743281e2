// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

func TestKeptRuns(t *testing.T) {
	const large = smallRun + 1
	key := func(i int) cache.ObjectName { return cache.NewObjectName("ns", fmt.Sprint(i)) }
	k := keptRuns{most: 10 * large}
	for i := range 100 {
		if !k.keep(key(100+i), smallRun, false) {
			t.Error("a small run is not kept")
		}
		if kept := k.keep(key(i), large, false); kept != (i < 10) {
			t.Errorf("large run %d: kept %t", i, kept)
		}
	}
	if got, want := k.pause(time.Millisecond), 900*time.Millisecond; got != want {
		t.Errorf("pause of 90 runs that take 1 ms: got %s, want %s", got, want)
	}
	if got := k.pause(time.Minute); got != maxReadPause {
		t.Errorf("longest pause: got %s, want %s", got, maxReadPause)
	}
	k.keep(key(3), 0, false)
	if !k.keep(key(50), large, false) || k.keep(key(51), large, false) {
		t.Error("after one run is gone, not one other is kept")
	}
	for i := range 200 {
		k.keep(key(i), 0, false)
	}
	if k.total != 0 || len(k.bytes)+len(k.read) != 0 || k.pause(time.Minute) != 0 {
		t.Errorf("after all runs are gone: %d bytes, %d runs, %d read", k.total, len(k.bytes), len(k.read))
	}
}

// A run that is too large to be kept is read again in each sync, and everything works.
func TestLargeRunIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		most, padding, conditions, subject int
		slow, read                         bool
	}{
		"there is room":              {most: maxKept, padding: 100_000},
		"there is no room":           {padding: 100_000, read: true},
		"it is small":                {padding: 1000},
		"its arguments are large":    {conditions: 200, read: true},
		"its subject is large":       {subject: 1000, read: true},
		"reading it takes long":      {padding: 100_000, read: true, slow: true},
		"nothing of it is as large":  {padding: 10_000, conditions: 20, subject: 100},
		"it is large, there is room": {most: maxKept, padding: 100_000, conditions: 200, subject: 1000, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			const condition = `{"condition":"{{ .data.ready }}","objectReference":{"apiVersion":"v1","resource":"configmaps","namespace":"ns","name":"c"}}`
			wait := v1alpha1.BlueprintPhase{Func: "WaitV2", Name: "long", Args: rawArgs(
				`{"timeout":"1h","conditions":{"anyOf":[` + strings.Repeat(condition+",", test.conditions) + condition + `]}}`)}
			next := configMapPhase("next")
			next.Args = rawArgs(strings.Replace(string(next.Args.Raw), "{name: next}", "{name: next}, data: {a: "+strings.Repeat("x", test.padding)+"}", 1))
			blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{wait, next}}})
			set := newSet("go")
			set.Spec.Actions[0].Object = v1alpha1.ObjectReference{APIVersion: "v1", Resource: "configmaps", Name: "subject", Namespace: "ns"}
			inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
				configMaps := fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource)
				subject := map[string]string{}
				for i := range test.subject {
					subject[fmt.Sprint("key-", i)] = ""
				}
				configMaps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"ready": "no"}})
				configMaps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "subject"}, Data: subject})
				lead := a.startStandby()
				a.controller.keptRuns.most = test.most
				lead(4)
				a.wait(time.Minute)
				a.takeRequests()
				if test.slow {
					a.mu.Lock()
					a.refuse = func(request string) error {
						if request == "get secrets" {
							time.Sleep(time.Second)
						}
						return nil
					}
					a.mu.Unlock()
				}
				a.wait(time.Minute)
				requests := a.takeRequests()
				polls, reads := 0, 0
				for _, request := range requests {
					switch request {
					case "get configmaps":
						polls++
					case "get secrets":
						reads++
					}
				}
				if test.read && reads != polls || !test.read && reads != 0 {
					t.Errorf("%d reads of the snapshot in %d polls", reads, polls)
				}
				if paused := test.slow && test.read; paused && polls > 10 || !paused && polls < 20 || polls == 0 {
					t.Errorf("%d polls in a minute", polls)
				}
				configMaps.Update("ns", "c", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
				a.wait(time.Minute)
				if got, want := a.states(), "complete go[ long=complete next=complete ] ended"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if k := &a.controller.keptRuns; k.total != 0 || len(k.read) != 0 {
					t.Errorf("after the end %d bytes are kept, %d runs are read", k.total, len(k.read))
				}
			})
		})
	}
}

// A process that starts a phase which another process has recorded renders its arguments while it is recorded itself.
func TestArgsAreRenderedUnderGuard(t *testing.T) {
	task := v1alpha1.BlueprintPhase{Func: "KubeTask", Name: "task", Args: rawArgs(`{"namespace":"ns","image":"{{ .ConfigMaps.c.Data.image }}","command":["sh"]}`)}
	set := newSet("go")
	set.Spec.Actions[0].ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {Namespace: "ns", Name: "c"}}
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {ConfigMapNames: []string{"c"}, Phases: []v1alpha1.BlueprintPhase{task}}})
	inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
		fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource).Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"image": "busybox"},
		})
		a.refuse = func(request string) error {
			if request == "create pods" {
				return outage(request)
			}
			return nil
		}
		a.startProcess()
		a.stopProcess()
		a.answerAll()
		a.takeRequests()
		a.startProcess()
		requests := slices.DeleteFunc(a.takeRequests(), func(request string) bool {
			return request != "get configmaps" && request != "update actionsets/status" && request != "create pods"
		})
		// The record, the arguments, the take-over.
		want := []string{"update actionsets/status", "get configmaps", "update actionsets/status", "create pods"}
		if len(requests) < len(want) || !slices.Equal(requests[:len(want)], want) {
			t.Errorf("got requests %q, want %q first", requests, want)
		}
	})
}

// The arguments of a phase whose function does not observe them are not rendered again by the next process: what they were rendered from may be gone.
func TestArgsAreNotObserved(t *testing.T) {
	task := v1alpha1.BlueprintPhase{Func: "KubeTask", Name: "task", Args: rawArgs(`{"namespace":"ns","image":"{{ .ConfigMaps.c.Data.image }}","command":["sh"]}`)}
	set := newSet("go")
	set.Spec.Actions[0].ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {Namespace: "ns", Name: "c"}}
	blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {ConfigMapNames: []string{"c"}, Phases: []v1alpha1.BlueprintPhase{task}}})
	inBubble(t, set, blueprint, func(t *testing.T, a *apiServer) {
		fakeapi.Of[corev1.ConfigMap](a.Server, configMapsResource).Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"image": "busybox"},
		})
		a.startProcess()
		if got, want := a.states(), "running go[ task=running ]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if kept := a.controller.memories.Get(cache.NewObjectName("ns", "s"), a.set().UID).args; len(kept) > 0 {
			t.Error("the arguments of the running phase are kept")
		}
		a.stopProcess()
		a.takeRequests()
		a.startProcess()
		a.wait(time.Minute)
		if requests := a.takeRequests(); slices.Contains(requests, "get configmaps") || a.states() != "running go[ task=running ]" {
			t.Errorf("got %s after the requests %q, want that nothing is rendered", a.states(), requests)
		}
	})
}
