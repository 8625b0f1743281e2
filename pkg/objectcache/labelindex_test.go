// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

func labelled(t testing.TB, namespace, name string, set labels.Set) *RawObject {
	text := ""
	for key, value := range set {
		text += fmt.Sprintf(`,%q:%q`, key, value)
	}
	if text != "" {
		text = text[1:]
	}
	return mustParse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"X","metadata":{"namespace":%q,"name":%q,"labels":{%s}}}`, namespace, name, text))
}

func TestAListByLabelsFindsWhatAScanFinds(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	selectors := []string{"", "app=a1", "app=a1,tier=t1", "app in (a1,a2)", "app in (a1,a2),tier=t2", "tier", "!tier", "app!=a1", "tier=none", "app=a1,!tier"}
	for i := range 2 * maxIndexes {
		selectors = append(selectors, fmt.Sprintf("l%d=v", i))
	}
	s := newStore()
	for round := range 4000 {
		name := objectName{fmt.Sprint("n", random.Intn(3)), fmt.Sprint("o", random.Intn(400))}
		if random.Intn(3) == 0 {
			s.remove(name)
		} else {
			set := labels.Set{"app": fmt.Sprint("a", random.Intn(4)), fmt.Sprint("l", random.Intn(2*maxIndexes)): "v"}
			if random.Intn(2) == 0 {
				set["tier"] = fmt.Sprint("t", random.Intn(3))
			}
			s.put(labelled(t, name.namespace, name.name, set))
		}
		if round == 2000 {
			before := s
			s = before.emptied()
			before.each("", s.put)
		}
		if round%10 > 0 {
			continue
		}
		namespace := []string{"", "n0", "n1"}[random.Intn(3)]
		selector, err := labels.Parse(selectors[random.Intn(len(selectors))])
		if err != nil {
			t.Fatal(err)
		}
		s.index(s.unindexed(namespace, selector))
		find := func(each func(visit func(*RawObject))) (found []string) {
			each(func(o *RawObject) {
				if selector.Matches(o.Labels()) {
					found = append(found, o.JSON())
				}
			})
			slices.Sort(found)
			return found
		}
		want := find(func(visit func(*RawObject)) { s.each(namespace, visit) })
		got := find(func(visit func(*RawObject)) { s.eachLabelled(namespace, selector, visit) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q in %q: %s", selector, namespace, diff)
		}
	}
	if len(s.labels) != maxIndexes {
		t.Errorf("%d labels are indexed", len(s.labels))
	}
	s.each("", func(o *RawObject) { s.remove(nameOf(o)) })
	for label, x := range s.labels {
		if len(x) > 0 {
			t.Errorf("the index of %s holds something of an empty store", label)
		}
	}
}

func TestAListByLabelsLooksAtFewObjects(t *testing.T) {
	s := newStore()
	for i := range 300 {
		s.put(labelled(t, fmt.Sprint("n", i%2), fmt.Sprint("o", i), labels.Set{"app": "web", "instance": fmt.Sprint("i", i/2)}))
	}
	selector := labels.SelectorFromSet(labels.Set{"app": "web", "instance": "i42"})
	s.index(s.unindexed("", selector))
	for namespace, want := range map[string]int{"": 2, "n0": 1, "other": 0} {
		visited := 0
		s.eachLabelled(namespace, selector, func(*RawObject) { visited++ })
		if visited != want {
			t.Errorf("in %q it looks at %d objects, want %d", namespace, visited, want)
		}
	}
}

// BenchmarkListByLabel lists one object of 20,000.
func BenchmarkListByLabel(b *testing.B) {
	f := newFeed(nil, feedKey{})
	for i := range 20000 {
		f.objects.put(labelled(b, "ns", fmt.Sprint("o", i), labels.Set{"app": "web", "instance": fmt.Sprint("i", i)}))
	}
	handle := &Handle{}
	handle.feed.Store(f)
	selector := labels.SelectorFromSet(labels.Set{"app": "web", "instance": "i42"})
	b.ReportAllocs()
	for b.Loop() {
		if n := len(handle.List("ns", selector)); n != 1 {
			b.Fatalf("%d objects", n)
		}
	}
}
