// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// ofPlains makes the children of a kind that Kubernetes does not define.
func ofPlains(s *v1alpha1.CompositeControllerSpec) {
	s.ChildResources[0].ResourceRule = v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "plains"}
}

func TestRedefinitionRepeatsIgnoredWrites(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	changed := strings.NewReplacer(`"k":"1"`, `"k":"2"`, `"ready":1`, `"ready":2`).Replace(answered)
	p, err := w.decide(phaseSync, changed)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.steps {
		p.history.recordDone(s, s.resourceVersion)
	}
	p.history.recordStatusDone(p.status, w.parent.GetResourceVersion(), w.parent)
	w.history = p.history
	w.want(changed)
	if !w.history.ignored {
		t.Error("nothing waits for another definition")
	}
	w.history = w.history.redefined()
	w.now = w.now.Add(time.Minute)
	w.want(changed, "update ConfigMap ns/b", "update ConfigMap ns/a", "status")
	w.want(changed)
	if w.history.ignored {
		t.Error("it waits for another definition although nothing is ignored any more")
	}
}

// TestRecreationAfterRedefinition: a restart has the same effect, because the definition may have changed meanwhile.
func TestRecreationAfterRedefinition(t *testing.T) {
	for name, redefine := range map[string]func(w *world){
		"redefinition": func(w *world) { w.history = w.history.redefined() },
		"restart":      (*world).restart,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate), ofPlains)
			w.generations = true
			answer := strings.NewReplacer(`"v1"`, `"example.com/v1"`, "ConfigMap", "Plain").Replace(one)
			w.mutate = func(tree map[string]any) { delete(tree["data"].(map[string]any), "other") }
			w.want(answer, "create Plain ns/a", "status")
			w.want(answer)
			redefine(w)
			w.want(answer)
			if w.trials != 2 || !w.history.ignored {
				t.Errorf("%d dry runs, want 2: one with each definition; it waits for another one: %t", w.trials, w.history.ignored)
			}
			w.mutate = func(map[string]any) {}
			w.want(answer)
			redefine(w)
			w.want(answer, "recreate Plain ns/a")
			w.want(answer, "create Plain ns/a")
			w.want(answer)
		})
	}
}

// TestNoTrialOfWhatAdmissionChanged: a new child may be changed otherwise, which is no reason to create each of them again.
func TestNoTrialOfWhatAdmissionChanged(t *testing.T) {
	w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate), ofPlains)
	w.generations = true
	answer := strings.NewReplacer(`"v1"`, `"example.com/v1"`, "ConfigMap", "Plain").Replace(one)
	w.mutate = func(tree map[string]any) {
		tree["data"].(map[string]any)["other"] = fmt.Sprint("changed at version ", w.version)
	}
	w.want(answer, "create Plain ns/a", "status")
	for range 3 {
		w.want(answer)
		w.restart()
	}
	if w.trials > 0 {
		t.Errorf("%d dry runs", w.trials)
	}
}

// TestRefusedTrialOfDroppedFields: whether a field would be kept is not known. Nothing is reported as failed that works otherwise.
func TestRefusedTrialOfDroppedFields(t *testing.T) {
	answer := strings.NewReplacer(`"v1"`, `"example.com/v1"`, "ConfigMap", "Plain").Replace(one)
	w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate), ofPlains)
	w.generations = true
	w.mutate = func(tree map[string]any) { delete(tree["data"].(map[string]any), "other") }
	w.sync(answer)
	child := string(w.children[plain.key("ns", "a")].(text))
	for code, fails := range map[int]bool{http.StatusForbidden: false, http.StatusInternalServerError: true} {
		api := startFakeAPI(t, string(parentWith("")), child)
		api.fails("dry run", code, "exceeded quota")
		s := newSyncTest(t, api, withMethod(v1alpha1.ChildUpdateRecreate), ofPlains)
		if err := s.answered(phaseSync, answer); (err != nil) != fails {
			t.Errorf("%d: the error is %v", code, err)
		}
		s.wantDid("POST plains/a-00001 (dry run)", "PUT things/thing/status")
	}
}

func TestRedefinedQueuesParentsThatWait(t *testing.T) {
	s := newSyncTest(t, startFakeAPI(t, string(parentWith(""))))
	queue := &queueOfNames{}
	s.Queue = queue
	want := func(what string, names ...string) {
		t.Helper()
		if got := queue.take(); !slices.Equal(got, names) {
			t.Errorf("%s: queued are %v, want %v", what, got, names)
		}
	}
	s.waitForDefinitions()
	s.Redefined(configMaps.GroupResource())
	want("nothing was ignored")
	s.state.history.ignored = true
	s.waitForDefinitions()
	want("it has changed during the sync", "thing")
	s.definitions = s.redefinitions.current()
	s.waitForDefinitions()
	s.Redefined(namespaces.GroupResource())
	want("another resource has changed")
	s.Redefined(things.GroupResource())
	want("the definition of the parent has changed", "thing")
	s.Redefined(things.GroupResource())
	want("it waits no more")
	s.definitions = s.redefinitions.current()
	s.waitForDefinitions()
	s.forget(s.of, s.key)
	s.Redefined(configMaps.GroupResource())
	want("the parent is gone")
}

func TestRedefinitionForgetsVersions(t *testing.T) {
	s := newSyncTest(t, startFakeAPI(t, string(parentWith(""))))
	s.Queue = &queueOfNames{}
	known := s.state.customizedFor("")
	known.resourceVersion, s.state.lastAnswer.known, s.state.history.ignored = "1", true, true
	if err := s.readSelector(); err != nil {
		t.Fatal(err)
	}
	if known.resourceVersion == "" || !s.state.lastAnswer.known || !s.state.history.ignored {
		t.Error("versions are forgotten without a change of a definition")
	}
	s.Redefined(things.GroupResource())
	s.definitions = s.redefinitions.current()
	if err := s.readSelector(); err != nil {
		t.Fatal(err)
	}
	if known.resourceVersion != "" || s.state.lastAnswer.known || s.state.history.ignored {
		t.Errorf("the version that customize was asked about is still %q, the last answer %+v", known.resourceVersion, s.state.lastAnswer)
	}
}
