// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// created returns a CompositeController that was created that number of seconds after the first.
func created(name string, second int, edits ...edit) *v1alpha1.CompositeController {
	cc := controllerWith(edits...)
	cc.Name, cc.CreationTimestamp = name, metav1.NewTime(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC))
	return cc
}

func withParents(selector string) edit {
	return func(spec *v1alpha1.CompositeControllerSpec) {
		parsed, err := metav1.ParseToLabelSelector(selector)
		if err != nil {
			panic(err)
		}
		spec.ParentResource.LabelSelector = parsed
	}
}

func withChildren(resources ...string) edit {
	return func(spec *v1alpha1.CompositeControllerSpec) {
		spec.ChildResources = nil
		for _, resource := range resources {
			rule := v1alpha1.ResourceRule{APIVersion: "v1", Resource: resource}
			spec.ChildResources = append(spec.ChildResources, v1alpha1.CompositeControllerChildResourceRule{ResourceRule: rule})
		}
	}
}

// rollingAll has all children roll.
func rollingAll(spec *v1alpha1.CompositeControllerSpec) {
	for i := range spec.ChildResources {
		spec.ChildResources[i].UpdateStrategy = &v1alpha1.CompositeControllerChildUpdateStrategy{Method: v1alpha1.ChildUpdateRollingInPlace}
	}
}

func withoutSync(spec *v1alpha1.CompositeControllerSpec) {
	spec.Hooks.Sync, spec.Hooks.Finalize = nil, webhookAt("http://hook/finalize")
}

// owners are the older CompositeControllers that manage the children and the status of a parent.
type owners struct{ children, status string }

func TestOverlapOf(t *testing.T) {
	deleted := created("a", 0)
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		others []*v1alpha1.CompositeController
		edits  []edit
		labels string
		want   owners
		// always is whether it is known without looking at a parent.
		always bool
	}{
		"it is alone":                              {},
		"an older one is the same":                 {others: list(created("a", 0)), want: owners{children: "a"}, always: true},
		"a younger one is the same":                {others: list(created("a", 60))},
		"one of the same second has a name before": {others: list(created("a", 30)), want: owners{children: "a"}, always: true},
		"one of the same second has a name after":  {others: list(created("z", 30))},
		"of two older ones it is left to the oldest": {
			others: list(created("b", 1), created("c", 0)),
			want:   owners{children: "c"}, always: true,
		},
		"an older one has other children": {others: list(created("a", 0, withChildren("services"))), want: owners{status: "a"}},
		"an older one rolls other children, and this one does not": {
			others: list(created("a", 0, withChildren("services"), rollingAll)), want: owners{status: "a"},
		},
		"both roll, and have one record for a revision": {
			others: list(created("a", 0, withChildren("services"), rollingAll)), edits: []edit{rollingAll}, want: owners{children: "a"}, always: true,
		},
		"an older one has no children": {others: list(created("a", 0, withChildren())), want: owners{status: "a"}},
		"one type of children of several is the same": {
			others: list(created("a", 0, withChildren("pods", "services"))),
			edits:  []edit{withChildren("services", "configmaps")}, want: owners{children: "a"}, always: true,
		},
		"an older one is deleted": {others: list(deleted)},
		"an older one can never work": {
			others: list(created("a", 0, func(s *v1alpha1.CompositeControllerSpec) { s.Hooks = nil })),
		},
		"an older one only finalizes": {others: list(created("a", 0, withoutSync))},
		"it only finalizes":           {others: list(created("a", 0)), edits: []edit{withoutSync}},
		"an older one has parents of another type": {
			others: list(created("a", 0, func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.Resource = "widgets" })),
		},
		"an older one has parents of another version": {
			others: list(created("a", 0, func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.APIVersion = "example.com/v2" })),
			want:   owners{children: "a"}, always: true,
		},
		"an older one selects the parent, too": {
			others: list(created("a", 0, withParents("on=yes"))),
			labels: "on=yes", want: owners{children: "a"},
		},
		"an older one does not select the parent": {others: list(created("a", 0, withParents("on=yes"))), labels: "on=no"},
		"both select it by other labels": {
			others: list(created("a", 0, withParents("on=yes"))),
			edits:  []edit{withParents("x=y")}, labels: "on=yes,x=y", want: owners{children: "a"},
		},
		"both select by the same labels": {
			others: list(created("a", 0, withParents("on=yes"))),
			edits:  []edit{withParents("on=yes")}, labels: "on=yes", want: owners{children: "a"}, always: true,
		},
		"it selects fewer": {
			others: list(created("a", 0, withParents("on=yes"))),
			edits:  []edit{withParents("on=yes,x=y")}, labels: "on=yes,x=y", want: owners{children: "a"}, always: true,
		},
		"an older one is left to one that is older": {
			others: list(created("a", 0, withChildren("pods")), created("b", 1, withChildren("pods", "configmaps"))),
			want:   owners{status: "a"},
		},
		"an older one is left to one of other parents": {
			others: list(created("a", 0, withChildren("pods"), withParents("on=yes")), created("b", 1, withChildren("pods", "configmaps"))),
			labels: "on=no", want: owners{children: "b"}, always: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cc := created("m", 30, test.edits...)
			all := append(test.others, cc)
			parent, err := labels.ConvertSelectorToLabelsMap(test.labels)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				o := overlapOf(cc, all)
				wrong, status := o.on(parent)
				if got := (owners{olderIn(wrong), status}); got != test.want {
					t.Fatalf("it is left to %+v, want %+v", got, test.want)
				}
				if always := o.always(); (always != nil) != test.always || always != nil && *always != *wrong {
					t.Fatalf("always %v, want %t, and the same as of the parent, %v", always, test.always, wrong)
				}
				if again := overlapOf(cc, all); !o.equal(&again) {
					t.Fatal("the same CompositeControllers overlap otherwise")
				}
			}
		})
	}
}

func list(ccs ...*v1alpha1.CompositeController) []*v1alpha1.CompositeController { return ccs }

// TestMessageOfOverlap: types that users have declared are named, and what to do about ControllerRevisions is another thing.
func TestMessageOfOverlap(t *testing.T) {
	rolled := func(resources ...string) edit {
		return func(s *v1alpha1.CompositeControllerSpec) { withChildren(resources...)(s); rollingAll(s) }
	}
	for want, children := range map[string][]string{
		"children of the same type (pods)": {"pods", "services"}, "a Rolling method, as this one has": {"secrets"},
	} {
		overlap := overlapOf(created("b", 1, rolled("pods", "configmaps")), list(created("a", 0, rolled(children...))))
		problem, _ := overlap.on(labels.Set{})
		if problem == nil || !strings.Contains(problem.Message, want) || strings.Contains(problem.Message, "controllerrevisions.") {
			t.Errorf("the problem is %v, want %q", problem, want)
		}
	}
}

// olderIn returns the older CompositeController that the message names.
func olderIn(wrong *Problem) string {
	if wrong == nil {
		return ""
	}
	_, rest, _ := strings.Cut(wrong.Message, "CompositeController ")
	name, _, _ := strings.Cut(rest, ",")
	return name
}

func overlapOf(cc *v1alpha1.CompositeController, all []*v1alpha1.CompositeController) Overlap {
	var declarations []*Declaration
	for _, other := range all {
		declarations = append(declarations, FromComposite(other))
	}
	return OverlapOf(FromComposite(cc), declarations)
}

func TestOverlapEqual(t *testing.T) {
	cc := created("m", 30)
	before := overlapOf(cc, list(created("a", 0), cc))
	for name, others := range map[string][]*v1alpha1.CompositeController{
		"it has gone":            {},
		"it has other children":  list(created("a", 0, withChildren("pods"))),
		"it selects":             list(created("a", 0, withParents("on=yes"))),
		"it is another one":      list(created("b", 0)),
		"there is one more":      list(created("a", 0), created("b", 1)),
		"it cannot work anymore": list(created("a", 0, func(s *v1alpha1.CompositeControllerSpec) { s.ParentResource.APIVersion = "/" })),
	} {
		if after := overlapOf(cc, append(others, cc)); before.equal(&after) {
			t.Errorf("%s, and nothing is synced", name)
		}
	}
}

func TestSetOverlapQueuesParents(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []*v1alpha1.CompositeController
		labels        string
		want          bool
	}{
		"one of other parents comes":         {after: list(created("a", 0, withParents("on=no"))), labels: "on=yes", want: true},
		"one of other parents goes":          {before: list(created("a", 0, withParents("on=no"))), labels: "on=yes", want: true},
		"one of this parent comes":           {after: list(created("a", 0, withParents("on=yes"))), labels: "on=yes"},
		"one of this parent goes":            {before: list(created("a", 0, withParents("on=yes"))), labels: "on=yes"},
		"another one has its children":       {before: list(created("a", 0), created("b", 1)), after: list(created("b", 1))},
		"another one has its status":         {before: list(created("a", 0, withChildren()), created("b", 1, withChildren())), after: list(created("b", 1, withChildren()))},
		"its status is left to one":          {after: list(created("a", 0, withChildren()))},
		"one more has the same, and waits":   {before: list(created("a", 0)), after: list(created("a", 0), created("b", 1)), want: true},
		"one has children of one type fewer": {before: list(created("a", 0, withChildren("pods", "services"))), after: list(created("a", 0, withChildren("services"))), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			cc := created("m", 30)
			parent, err := labels.ConvertSelectorToLabelsMap(test.labels)
			if err != nil {
				t.Fatal(err)
			}
			before, after := overlapOf(cc, append(test.before, cc)), overlapOf(cc, append(test.after, cc))
			if got := before.agrees(&after, parent); got != test.want {
				t.Errorf("it agrees: %t, want %t", got, test.want)
			}
		})
	}
}

func TestLeaveStatus(t *testing.T) {
	for name, test := range map[string]struct {
		status   string
		wanted   map[string]any
		reported bool
	}{
		"both want the same":                {status: `{"observedGeneration":3}`},
		"the older one has yet to write":    {status: `{}`, wanted: map[string]any{"a": 1}},
		"the older one has yet to catch up": {status: `{"observedGeneration":2}`, wanted: map[string]any{"a": 1}},
		"the older one wants another":       {status: `{"observedGeneration":3}`, wanted: map[string]any{"a": 1}, reported: true},
	} {
		t.Run(name, func(t *testing.T) {
			parent := text(strings.TrimSuffix(string(parentWith("")), "}") + `,"status":` + test.status + "}")
			p := plan{status: test.wanted}
			wrong := p.leaveStatus(parent, "older")
			if p.status != nil || (wrong != nil) != test.reported {
				t.Errorf("status %v is written, and reported is %v", p.status, wrong)
			}
			if wrong != nil && (wrong.Reason != v1alpha1.ReasonParentsOverlap || olderIn(wrong) != "older" || !strings.Contains(wrong.Message, "ns/thing")) {
				t.Errorf("the problem is %+v", *wrong)
			}
		})
	}
}
