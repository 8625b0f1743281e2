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

func TestTheIndexFindsExactlyTheSelectorsThatMatch(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	selectors := []string{"", "app=x", "app=x,tier=a", "app in (x,y)", "app notin (x)", "!tier", "tier", "tier=a,app!=x", "app in (x,y),tier in (a,b)", "app="}
	type entry struct {
		namespace string
		selector  labels.Selector
	}
	var index SelectorIndex[int]
	model := map[int]entry{}
	for range 5000 {
		key := random.Intn(60)
		if random.Intn(3) == 0 {
			index.Delete(key)
			delete(model, key)
		} else {
			selector, err := labels.Parse(selectors[random.Intn(len(selectors))])
			if err != nil {
				t.Fatal(err)
			}
			if random.Intn(20) == 0 {
				selector = labels.Nothing()
			}
			e := entry{[]string{"", "n1", "n2"}[random.Intn(3)], selector}
			index.Set(key, e.namespace, selector)
			model[key] = e
		}
		app, tier := []string{"x", "y", "z", ""}[random.Intn(4)], []string{"a", "b"}[random.Intn(2)]
		set := fmt.Sprintf(`{"app":%q,"tier":%q}`, app, tier)
		if random.Intn(3) == 0 {
			set = fmt.Sprintf(`{"app":%q}`, app)
		}
		o := mustParse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"X","metadata":{"namespace":%q,"name":"o","labels":%s}}`, []string{"", "n1", "n2"}[random.Intn(3)], set))
		var want []int
		for key, e := range model {
			if (e.namespace == "" || e.namespace == o.GetNamespace()) && e.selector.Matches(o.Labels()) {
				want = append(want, key)
			}
		}
		got := index.AppendMatches(nil, o)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", o.JSON(), diff)
		}
	}
	for key := range 60 {
		index.Delete(key)
	}
	if len(index.filed)+len(index.places) > 0 {
		t.Error("an empty index holds something")
	}
}

// BenchmarkUnrelatedOwnerlessObject is the cost of one event of an object that none of N parents selects.
func BenchmarkUnrelatedOwnerlessObject(b *testing.B) {
	for _, parents := range []int{100, 10000} {
		b.Run(fmt.Sprint(parents, "parents"), func(b *testing.B) {
			var index SelectorIndex[int]
			for i := range parents {
				index.Set(i, "ns", labels.SelectorFromSet(labels.Set{"app": "web", "instance": fmt.Sprint("i", i)}))
			}
			o := mustParse(b, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"leader","namespace":"ns","labels":{"app":"web","component":"election","instance":"other"}}}`)
			var keys []int
			b.ReportAllocs()
			for b.Loop() {
				keys = index.AppendMatches(keys[:0], o)
			}
			if len(keys) > 0 {
				b.Error("it matches")
			}
		})
	}
}
