// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

type edit = func(*v1alpha1.CompositeControllerSpec)

func TestCompileProblems(t *testing.T) {
	for name, test := range map[string]struct {
		edit         edit
		reason, text string
	}{
		"nothing": {func(*v1alpha1.CompositeControllerSpec) {}, "", ""},
		"a finalize hook alone is enough": {func(s *v1alpha1.CompositeControllerSpec) {
			s.Hooks = &v1alpha1.CompositeControllerHooks{Finalize: webhookAt("http://hook")}
		}, "", ""},
		"a hook that is never called is accepted": {func(s *v1alpha1.CompositeControllerSpec) { s.Hooks.PreUpdateChild = webhookAt("http://hook") }, "", ""},
		"no hooks":                           {func(s *v1alpha1.CompositeControllerSpec) { s.Hooks = nil }, "InvalidSpec", "no hooks defined"},
		"hooks without a webhook":            {func(s *v1alpha1.CompositeControllerSpec) { s.Hooks.Sync = &v1alpha1.Hook{} }, "InvalidSpec", "has a webhook"},
		"children that are moved one by one": {withMethod(v1alpha1.ChildUpdateRollingInPlace), "", ""},
		"an update method that does not exist": {withMethod("RollingOnDelete"), "InvalidSpec",
			`must be one of ["OnDelete" "Recreate" "InPlace" "RollingRecreate" "RollingInPlace"]`},
		"cluster-scoped parents of children that are moved one by one": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ParentResource.ResourceRule = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}
			s.ChildResources[0].UpdateStrategy.Method = v1alpha1.ChildUpdateRollingRecreate
		}, "InvalidSpec", "use Recreate instead of RollingRecreate"},
		"records of rolling updates as children": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ChildResources[0].UpdateStrategy.Method = v1alpha1.ChildUpdateRollingInPlace
			s.ChildResources = append(s.ChildResources, v1alpha1.CompositeControllerChildResourceRule{
				ResourceRule: v1alpha1.ResourceRule{APIVersion: "metacontroller.k8s.io/v1alpha1", Resource: "controllerrevisions"}})
		}, "InvalidSpec", "spec.childResources[1]: controllerrevisions.metacontroller.k8s.io are the records"},
		"a field of the revision history that cannot be read": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ParentResource.RevisionHistory = &v1alpha1.CompositeControllerRevisionHistory{FieldPaths: []string{"spec..template"}}
		}, "InvalidSpec", "spec.parentResource.revisionHistory.fieldPaths"},
		"a selector that cannot be read": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ParentResource.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Likes"}}}
		}, "InvalidSpec", "labelSelector"},
		"an apiVersion that cannot be read": {func(s *v1alpha1.CompositeControllerSpec) { s.ChildResources[0].APIVersion = "a/b/c" }, "InvalidSpec", "spec.childResources[0]"},
		"a parent that is not served":       {func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.Resource = "others" }, "ParentNotServed", "others.example.com"},
		"a parent without status": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ParentResource.Resource = "plains"
		}, "StatusSubresourceMissing", "does not have subresource 'Status' enabled"},
		"a child that is not served":         {func(s *v1alpha1.CompositeControllerSpec) { s.ChildResources[0].Resource = "others" }, "ChildNotServed", "spec.childResources[0]"},
		"a child that its parent cannot own": {func(s *v1alpha1.CompositeControllerSpec) { s.ChildResources[0].Resource = "namespaces" }, "InvalidSpec", "cluster-scoped"},
		"a built-in parent is as good as any": {func(s *v1alpha1.CompositeControllerSpec) {
			s.ParentResource.ResourceRule = v1alpha1.ResourceRule{APIVersion: "v1", Resource: "namespaces"}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := Compile(FromComposite(controllerWith(test.edit)), served())
			if wrong == nil {
				wrong = &Problem{}
			}
			if wrong.Reason != test.reason || !strings.Contains(wrong.Message, test.text) {
				t.Errorf("got %+v, want %s with %q", *wrong, test.reason, test.text)
			}
		})
	}
}

func TestPlanHook(t *testing.T) {
	const held, on = `"finalizers":["metacontroller.io/compositecontroller-cc"]`, `"labels":{"on":"yes"}`
	noSync := func(s *v1alpha1.CompositeControllerSpec) { s.Hooks.Sync = nil }
	emptyFinalize := func(s *v1alpha1.CompositeControllerSpec) { s.Hooks.Finalize = &v1alpha1.Hook{} }
	for name, test := range map[string]struct {
		edits    []edit
		metadata string
		want     hookPlan
		manages  bool
	}{
		"sync":                                 {nil, "", hookPlan{hook: phaseSync}, true},
		"without finalize, deletion is a sync": {nil, deleting, hookPlan{hook: phaseSync}, false},
		"a finalizer comes before the first sync":                           {[]edit{withFinalize}, "", hookPlan{addFinalizer: true, hook: phaseSync}, true},
		"with the finalizer, sync":                                          {[]edit{withFinalize}, held, hookPlan{hook: phaseSync}, true},
		"deleted, finalize":                                                 {[]edit{withFinalize}, held + "," + deleting, hookPlan{hook: phaseFinalize}, true},
		"deleted before it had the finalizer":                               {[]edit{withFinalize}, deleting, hookPlan{hook: phaseFinalize}, false},
		"deleted in the foreground, the garbage collector has the children": {[]edit{withFinalize}, `"finalizers":["metacontroller.io/compositecontroller-cc","foregroundDeletion"],` + deleting, hookPlan{hook: phaseFinalize}, false},
		"finalize was taken out of the controller":                          {nil, held, hookPlan{removeFinalizer: true, hook: phaseSync}, true},
		"finalize without a webhook never holds a parent":                   {[]edit{emptyFinalize}, held + "," + deleting, hookPlan{removeFinalizer: true, hook: phaseSync}, false},
		"finalize alone leaves a living parent alone":                       {[]edit{withFinalize, noSync}, held, hookPlan{}, true},
		"finalize alone adds its finalizer":                                 {[]edit{withFinalize, noSync}, "", hookPlan{addFinalizer: true}, true},
		"not selected":                                                      {[]edit{withFinalize, withLabelSelector}, "", hookPlan{}, true},
		"selected no more, finalize":                                        {[]edit{withFinalize, withLabelSelector}, held, hookPlan{hook: phaseFinalize}, true},
		"selected no more, and finalize is out":                             {[]edit{withLabelSelector}, held, hookPlan{removeFinalizer: true}, true},
		"selected":                                                          {[]edit{withLabelSelector}, on, hookPlan{hook: phaseSync}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, parent := specWith(t, test.edits...), parentWith(test.metadata)
			if got := r.planHook(r.parents[0], parent); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if got := r.managesChildren(parent); got != test.manages {
				t.Errorf("children are managed: %v, want %v", got, test.manages)
			}
		})
	}
}

// TestNeedsSyncOfKindWithoutGeneration: ConfigMaps, Services and Nodes have no generation.
func TestNeedsSyncOfKindWithoutGeneration(t *testing.T) {
	r := specWith(t, func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.IgnoreStatusChanges = ptr(true) })
	of := func(more string) text {
		return text(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n","resourceVersion":"1"},"status":{"phase":"x"}` + more + `}`)
	}
	node := of(`,"spec":{"podCIDR":"x"}`)
	for name, test := range map[string]struct {
		after text
		want  bool
	}{
		"its status":    {text(strings.NewReplacer(`"phase":"x"`, `"phase":"y"`, `"1"`, `"2"`).Replace(string(node))), false},
		"its spec":      {of(`,"spec":{"podCIDR":"x","unschedulable":true}`), true},
		"another field": {of(`,"spec":{"podCIDR":"x"},"data":{"a":"b"}`), true},
		"a field less":  {of(""), true},
	} {
		if got := r.needsSync(r.parents[0], node, test.after); got != test.want {
			t.Errorf("%s matters: %v, want %v", name, got, test.want)
		}
	}
}

func TestNeedsSync(t *testing.T) {
	ignoring := func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.IgnoreStatusChanges = ptr(true) }
	for name, test := range map[string]struct {
		edits         []edit
		before, after string
		want          bool
	}{
		"the status, unless it is to be ignored": {nil, "", "", true},
		"the status, if it is to be ignored":     {[]edit{ignoring}, "", "", false},
		"a label":                                {[]edit{ignoring}, "", `"labels":{"a":"b"}`, true},
		"an annotation":                          {[]edit{ignoring}, `"annotations":{"a":"b"}`, "", true},
		"the deletion":                           {[]edit{ignoring}, "", deleting, true},
		"a finalizer":                            {[]edit{ignoring}, "", `"finalizers":["x/y"]`, true},
		"a version alone, if ignoring":           {[]edit{ignoring}, "", `"resourceVersion":"2","managedFields":[{}]`, false},
		"it is selected no more":                 {[]edit{withLabelSelector}, `"labels":{"on":"yes"}`, "", true},
		"it never was selected":                  {[]edit{withLabelSelector}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := specWith(t, test.edits...)
			if got := r.needsSync(r.parents[0], parentWith(test.before), parentWith(test.after)); got != test.want {
				t.Errorf("matters: %v, want %v", got, test.want)
			}
		})
	}
}
