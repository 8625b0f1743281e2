// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/objectcache"
)

func rawConfigMap(t *testing.T, name, label, owner string) *objectcache.RawObject {
	t.Helper()
	if owner != "" {
		owner = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":%q,"controller":true}]`, owner)
	}
	o, err := objectcache.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":%q,"labels":{"app":%q}%s}}`, name, label, owner), false)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOrphanIndexMatches(t *testing.T) {
	x := newOrphanIndex()
	a, b := parentNamed("a"), parentNamed("b")
	x.setSelector(a, labels.SelectorFromSet(labels.Set{"app": "a"}))
	x.setSelector(b, labels.SelectorFromSet(labels.Set{"app": "b"}))

	orphans := map[string]*objectcache.RawObject{
		"one": rawConfigMap(t, "one", "a", ""), "two": rawConfigMap(t, "two", "a", ""), "other": rawConfigMap(t, "other", "c", ""),
	}
	for name, o := range orphans {
		parents := x.observe(location{0, "ns", name}, o)
		if want := name != "other"; slices.Contains(parents, a) != want || slices.Contains(parents, b) {
			t.Errorf("%s concerns %v", name, parents)
		}
	}
	find := func(_, name string) *objectcache.RawObject { return orphans[name] }
	names := func(parent Key, child int) (names []string) {
		for _, o := range x.list(parent, child, find) {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		return names
	}
	if got := names(a, 0); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("a may adopt %v, want one and two", got)
	}
	if got := append(names(a, 1), names(b, 0)...); len(got) > 0 {
		t.Errorf("of another type, or for another parent, there are %v, want none", got)
	}
	orphans["one"] = rawConfigMap(t, "one", "a", "another")
	delete(orphans, "two")
	if got := names(a, 0); len(got) > 0 {
		t.Errorf("a may adopt %v, which are owned or gone", got)
	}
	if len(x.matching[a]) > 0 {
		t.Error("what is owned or gone is kept in mind")
	}
	orphans["one"] = rawConfigMap(t, "one", "a", "")
	x.observe(location{0, "ns", "one"}, orphans["one"])
	x.forget(a, "")
	if got := names(a, 0); len(got) > 0 || len(x.observe(location{0, "ns", "one"}, orphans["one"])) > 0 {
		t.Error("a parent that was forgotten still matches")
	}
}

// TestOrphanOfParentThatReturns: a parent that is not selected for a while is forgotten. Its orphans are found again, whether they were observed before or
// meanwhile, unless they have an owner or are gone.
func TestOrphanOfParentThatReturns(t *testing.T) {
	x := newOrphanIndex()
	a := parentNamed("a")
	selector := labels.SelectorFromSet(labels.Set{labelControllerUID: "uid"})
	orphans := map[string]*objectcache.RawObject{}
	for _, name := range []string{"before", "meanwhile", "owned", "gone"} {
		o, err := objectcache.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":%q,"labels":{"controller-uid":"uid"}}}`, name), false)
		if err != nil {
			t.Fatal(err)
		}
		orphans[name] = o
	}
	find := func(_, name string) *objectcache.RawObject { return orphans[name] }
	found := func() (names []string) {
		for _, o := range x.list(a, 0, find) {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		return names
	}
	x.setUID(a, "uid", selector)
	x.observe(location{0, "ns", "before"}, orphans["before"])
	x.forget(a, "uid")
	for _, name := range []string{"meanwhile", "owned", "gone"} {
		if parents := x.observe(location{0, "ns", name}, orphans[name]); len(parents) > 0 {
			t.Errorf("%s concerns %v", name, parents)
		}
	}
	for _, name := range []string{"owned", "gone"} {
		x.drop(location{0, "ns", name}, orphans[name])
	}
	x.setUID(a, "uid", selector)
	if got := found(); !slices.Equal(got, []string{"before", "meanwhile"}) {
		t.Errorf("it may adopt %v", got)
	}
	if len(x.unmatched) > 0 {
		t.Errorf("kept is %v", x.unmatched)
	}
	x.forget(a, "uid")
	x.setUID(parentNamed("b"), "other", labels.SelectorFromSet(labels.Set{labelControllerUID: "other"}))
	if got := x.list(parentNamed("b"), 0, find); len(got) > 0 {
		t.Errorf("another parent may adopt %v", got)
	}
}

func TestOrphanIndexAfterNewSelector(t *testing.T) {
	x := newOrphanIndex()
	a := parentNamed("a")
	o := rawConfigMap(t, "one", "a", "")
	x.setSelector(a, labels.SelectorFromSet(labels.Set{"app": "a"}))
	x.observe(location{0, "ns", "one"}, o)
	x.setSelector(a, labels.SelectorFromSet(labels.Set{"app": "b"}))
	if got := x.list(a, 0, func(string, string) *objectcache.RawObject { return o }); len(got) > 0 {
		t.Errorf("still matches %v", got)
	}
}
