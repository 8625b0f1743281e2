// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

func forbiddenThings() error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "things"}, "thing", errors.New("no"))
}

func TestFinalizerOfController(t *testing.T) {
	for name, test := range map[string]struct {
		hook, has, former, hosted, started, anyFinalizer, oldGeneration bool

		want bool
	}{
		"a finalize hook":                          {hook: true, want: true},
		"a finalize hook, and it is there":         {hook: true, has: true, hosted: true, started: true, want: true},
		"no finalize hook":                         {hosted: true, started: true},
		"the hook is gone":                         {has: true, hosted: true, started: true},
		"the hook is gone, a parent has one":       {has: true, hosted: true, started: true, anyFinalizer: true, want: true},
		"the hook is gone, former parents remain":  {has: true, hosted: true, started: true, former: true, want: true},
		"the hook is gone, parents are not synced": {has: true, hosted: true, want: true},
		"the hook is gone, nothing is hosted":      {has: true, want: true},
		"the hook is gone, hosted is the old spec": {has: true, hosted: true, started: true, oldGeneration: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			cc := controllerWith()
			if test.hook {
				withFinalize(&cc.Spec)
			}
			if test.has {
				withFinalizer(cc)
			}
			if test.former {
				withFormer(cc, "others")
			}
			h := newHost(t, cc)
			s := h.state("cc")
			if test.hosted {
				of := h.cc()
				if test.oldGeneration {
					of.Generation--
				}
				s.hosted = &hostedController{parentController: &fakeParents{started: test.started, anyFinalizer: test.anyFinalizer}, declaration: declared(of)}
			}
			got, err := h.syncFinalizer(t.Context(), declared(h.cc()), s)
			if err != nil {
				t.Fatal(err)
			}
			if has := slices.Contains(h.cc().Finalizers, finalizer); has != test.want || slices.Contains(got.Finalizers, finalizer) != test.want {
				t.Errorf("it has the finalizer: %t, want %t; returned is %v", has, test.want, got.Finalizers)
			}
			if requests, _ := h.api.TakeLog(); (len(requests) == 0) != (test.has == test.want) {
				t.Errorf("the requests are %q", requests)
			}
		})
	}
}

func TestFinalizerKeepsOthers(t *testing.T) {
	cc := controllerWith(withFinalize)
	cc.Finalizers = []string{"example.com/theirs"}
	h := newHost(t, cc)
	h.mustSync()
	if got := h.cc().Finalizers; !slices.Equal(got, []string{"example.com/theirs", finalizer}) {
		t.Errorf("the finalizers are %v", got)
	}
}

func TestFinalizerAndRecordPrecedeParents(t *testing.T) {
	h := newHost(t, controllerWith(withFinalize))
	failed := errors.New("no")
	for _, request := range []string{"update compositecontrollers/status", "patch compositecontrollers"} {
		h.api.Fail(request, apierrors.NewInternalError(failed))
		if _, err := h.sync(); err == nil {
			t.Errorf("%s: no error", request)
		}
		h.wantDid()
	}
	h.mustSync()
	h.wantDid("new generation 7")
	things := []v1alpha1.ResourceRule{{APIVersion: "example.com/v1", Resource: "things"}}
	if diff := cmp.Diff(things, h.cc().Status.FinalizedParents); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

func TestFinalizerGoesWithTheHook(t *testing.T) {
	h := newHost(t, withFinalizer(withFormer(controllerWith(), "things")))
	h.mustSync()
	h.parents.health.Synced, h.parents.anyFinalizer = true, true
	h.mustSync()
	h.mustSync()
	if !slices.Contains(h.cc().Finalizers, finalizer) {
		t.Error("the finalizer is gone while a parent has one")
	}
	h.parents.anyFinalizer = false
	h.mustSync()
	h.mustSync()
	if got := h.cc(); len(got.Finalizers) > 0 || len(got.Status.FinalizedParents) > 0 {
		t.Errorf("the finalizers are %v, and the record is %v", got.Finalizers, got.Status.FinalizedParents)
	}
}

func TestFormerParents(t *testing.T) {
	others := []v1alpha1.ResourceRule{{APIVersion: "example.com/v1", Resource: "others"}}
	for name, test := range map[string]struct {
		clearErr error
		broken   bool // whether the new parents cannot be hosted
		defined  bool // whether a definition of the former parents exists
		cleared  []string
		record   []v1alpha1.ResourceRule
		unserved bool // whether the API server does not serve them any more when it does not find them
		fails    bool
		reason   string
	}{
		"are cleared":                        {cleared: []string{"v1 others.example.com of cc"}, reason: v1alpha1.ReasonServing},
		"are kept until others are hosted":   {broken: true, record: others, reason: v1alpha1.ReasonChildNotServed},
		"are kept if a right is missing":     {clearErr: forbiddenThings(), cleared: []string{"v1 others.example.com of cc"}, record: others, reason: v1alpha1.ReasonForbidden},
		"are kept if they cannot be cleared": {clearErr: errors.New("no"), cleared: []string{"v1 others.example.com of cc"}, record: others, fails: true, reason: v1alpha1.ReasonFinalizersRemain},
		"are kept if one API server does not serve them": {
			clearErr: apierrors.NewNotFound(schema.GroupResource{}, ""), defined: true, cleared: []string{"v1 others.example.com of cc"}, record: others,
			reason: v1alpha1.ReasonFinalizersRemain,
		},
		"are gone if nothing defines or serves them": {
			clearErr: apierrors.NewNotFound(schema.GroupResource{}, ""), unserved: true, cleared: []string{"v1 others.example.com of cc"},
			reason: v1alpha1.ReasonServing,
		},
		"are kept if an aggregated API does not find them": {
			clearErr: apierrors.NewNotFound(schema.GroupResource{}, ""), cleared: []string{"v1 others.example.com of cc"}, record: others,
			fails: true, reason: v1alpha1.ReasonFinalizersRemain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, withFinalizer(withFormer(controllerWith(), "others")))
			h.served.Resources[0].APIResources = append(h.served.Resources[0].APIResources, metav1.APIResource{Name: "others", Kind: "Other", Namespaced: true})
			if test.broken {
				h.served.Resources = h.served.Resources[:1] // without ConfigMaps
			}
			h.newParentController = hostedImmediately(h)
			h.clearErr = test.clearErr
			if test.unserved {
				h.clearing = func() { h.served.Resources[0].APIResources = h.served.Resources[0].APIResources[:2] }
			}
			if test.defined {
				h.defined = sets.New("others.example.com")
			}
			after, err := h.sync()
			if (err != nil) != test.fails {
				t.Fatalf("the error is %v", err)
			}
			h.wantCleared(test.cleared...)
			if diff := cmp.Diff(test.record, h.cc().Status.FinalizedParents, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
			h.wantReady(test.reason)
			if apierrors.IsForbidden(test.clearErr) && (after <= 0 || after > parent.RightsRetryInterval) {
				t.Errorf("it is tried again after %v", after)
			}
		})
	}
}

// hostedImmediately makes fakes with filled caches.
func hostedImmediately(h *host) func(parent.Config) (parentController, *parent.Problem, error) {
	return func(parent.Config) (parentController, *parent.Problem, error) {
		h.parents = &fakeParents{name: "it", did: &h.did, health: parent.Health{Synced: true}}
		return h.parents, nil, nil
	}
}

func TestDeletedController(t *testing.T) {
	const things, others = "v1 things.example.com of cc", "v1 others.example.com of cc"
	for name, test := range map[string]struct {
		clearErr error
		cleared  []string
		fails    bool
		reason   string
	}{
		"is released once all parents are cleared": {cleared: []string{others, things}},
		"is kept if a right is missing":            {clearErr: forbiddenThings(), cleared: []string{others, things}, fails: true, reason: v1alpha1.ReasonForbidden},
		"is kept if parents cannot be cleared":     {clearErr: errors.New("no"), cleared: []string{others, things}, fails: true, reason: v1alpha1.ReasonFinalizersRemain},
		"is kept after a stale read, quietly":      {clearErr: apierrors.NewConflict(schema.GroupResource{}, "", nil), cleared: []string{others, things}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, withFinalizer(withFormer(controllerWith(withFinalize), "others", "things")))
			h.served.Resources[0].APIResources = append(h.served.Resources[0].APIResources, metav1.APIResource{Name: "others", Kind: "Other", Namespaced: true})
			h.objects.Delete("", "cc")
			h.clearErr = test.clearErr
			if _, err := h.sync(); (err != nil) != test.fails {
				t.Fatalf("the error is %v", err)
			}
			h.wantCleared(test.cleared...)
			h.wantDid()
			if cc := h.cc(); (cc != nil) != test.fails {
				t.Fatalf("the CompositeController is %v", cc)
			}
			if test.fails {
				h.wantReady(test.reason)
			}
		})
	}
}

// TestDeletedInvalidController: what the spec has become does not matter. The record has the types of the parents that have the finalizer.
func TestDeletedInvalidController(t *testing.T) {
	for name, rule := range map[string]v1alpha1.ResourceRule{
		"no resource":           {APIVersion: "example.com/v1"},
		"no version":            {APIVersion: "a/b/c", Resource: "things"},
		"another resource":      {APIVersion: "example.com/v1", Resource: "others"},
		"another group, unused": {APIVersion: "other.example.com/v1", Resource: "things"},
	} {
		t.Run(name, func(t *testing.T) {
			cc := withFinalizer(withFormer(controllerWith(withFinalize), "things"))
			cc.Spec.ParentResource.ResourceRule = rule
			h := newHost(t, cc)
			h.objects.Delete("", "cc")
			h.mustSync()
			h.wantCleared("v1 things.example.com of cc")
			if cc := h.cc(); cc != nil {
				t.Errorf("it is still there, with the finalizers %v", cc.Finalizers)
			}
		})
	}
}

// TestDeletedControllerOfUnservedParents: the parents exist, also while no version of their type is served.
func TestDeletedControllerOfUnservedParents(t *testing.T) {
	h := newHost(t, withFinalizer(withFormer(controllerWith(withFinalize), "things")))
	served := h.served.Resources
	h.served.Resources = nil
	h.defined = sets.New("things.example.com")
	h.objects.Delete("", "cc")
	if _, err := h.sync(); err == nil {
		t.Error("no error")
	}
	h.wantCleared()
	h.wantReady(v1alpha1.ReasonFinalizersRemain)
	h.wantEvents("Warning FinalizersRemain finalizers cannot be removed from parents: the API server does not serve things.example.com, " +
		"although its CustomResourceDefinition exists: serve a version of it, or delete the definition")
	h.definedErr = errDefinitionsUnknown
	if _, err := h.sync(); err == nil {
		t.Error("no error before the definitions are known")
	}
	h.served.Resources, h.definedErr = served, nil
	h.mustSync()
	h.wantCleared("v1 things.example.com of cc")
	if cc := h.cc(); cc != nil {
		t.Errorf("it is still there, with the finalizers %v", cc.Finalizers)
	}
}

// TestFormerParentsWhileCachesAreFilled: until the new parents are synced, the edit may be a mistake.
func TestFormerParentsWhileCachesAreFilled(t *testing.T) {
	h := newHost(t, withFinalizer(withFormer(controllerWith(), "others")))
	h.served.Resources[0].APIResources = append(h.served.Resources[0].APIResources, metav1.APIResource{Name: "others", Kind: "Other", Namespaced: true})
	h.mustSync()
	h.wantCleared()
	h.parents.health.Synced = true
	h.mustSync()
	h.wantCleared("v1 others.example.com of cc")
}

// TestFormerParentsThatAreNotServed: the record keeps them, and what is hosted now goes on.
func TestFormerParentsThatAreNotServed(t *testing.T) {
	h := newHost(t, withFinalizer(withFormer(controllerWith(), "others")))
	h.newParentController = hostedImmediately(h)
	h.defined = sets.New("others.example.com")
	if after := h.mustSync(); after <= 0 || after > parent.RightsRetryInterval {
		t.Errorf("it is tried again after %v", after)
	}
	h.wantReady(v1alpha1.ReasonFinalizersRemain)
	h.wantDid("start it")
	h.defined = nil
	h.reportedLongAgo()
	h.mustSync()
	if record := h.cc().Status.FinalizedParents; len(record) > 0 {
		t.Errorf("without a definition the record is %v", record)
	}
	h.wantReady(v1alpha1.ReasonServing)
}

func TestDeletedWithoutFinalizer(t *testing.T) {
	cc := controllerWith()
	cc.Finalizers = []string{"example.com/theirs"}
	h := newHost(t, cc)
	h.start()
	h.objects.Delete("", "cc")
	h.mustSync()
	h.wantDid("stop generation 7")
	h.wantCleared()
	h.wantRequests()
}

func TestClearParentsFindsTheServedVersion(t *testing.T) {
	rule := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}
	for name, test := range map[string]struct {
		rule   v1alpha1.ResourceRule
		served []string
		want   []string
	}{
		"the recorded one":  {rule, []string{"v2", "v1"}, []string{"v1 things.example.com of cc"}},
		"another one":       {rule, []string{"v2"}, []string{"v2 things.example.com of cc"}},
		"none":              {rule, nil, nil},
		"of an invalid one": {v1alpha1.ResourceRule{APIVersion: "a/b/c", Resource: "things"}, []string{"v1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, controllerWith())
			h.served.Resources = nil
			for _, version := range test.served {
				h.serves("example.com/"+version, metav1.APIResource{Name: "things", Kind: "Thing", Namespaced: true})
			}
			if err := h.clearParents(t.Context(), test.rule, "cc"); err != nil {
				t.Fatal(err)
			}
			h.wantCleared(test.want...)
		})
	}
}
