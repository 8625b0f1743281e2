// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/objectcache"
)

func TestWatchesAreMergedAboveALimit(t *testing.T) {
	rule := func(rest string, args ...any) string {
		return `{"apiVersion":"v1","resource":"configmaps",` + fmt.Sprintf(rest, args...) + `}`
	}
	names := func(from, to int, namespace string) (rules []string) {
		for i := from; i < to; i++ {
			rules = append(rules, rule(`"namespace":%q,"names":["c%d"]`, namespace, i))
		}
		return rules
	}
	var inManyNamespaces, labelledInMany []string
	for i := range maxOfResource + 1 {
		inManyNamespaces = append(inManyNamespaces, rule(`"namespace":"n%d","names":["config"]`, i))
		labelledInMany = append(labelledInMany, rule(`"namespace":"n%d","labelSelector":{"matchLabels":{"app":"x"}}`, i))
	}
	for name, test := range map[string]struct {
		rules []string
		want  []string
	}{
		"one name":                      {names(0, 1, "n"), []string{"configmaps n/c0"}},
		"two names":                     {names(0, 2, "n"), []string{"configmaps n/c0", "configmaps n/c1"}},
		"many names in a namespace":     {names(0, maxOfNamespace+1, "n"), []string{"configmaps n/"}},
		"many here, one there":          {append(names(0, maxOfNamespace+1, "n"), names(0, 1, "m")...), []string{"configmaps m/c0", "configmaps n/"}},
		"one name in many namespaces":   {inManyNamespaces, []string{"configmaps /config"}},
		"one selector in many":          {labelledInMany, []string{"configmaps / app=x"}},
		"a namespace covers its names":  {append(names(0, 2, "n"), rule(`"namespace":"n"`)), []string{"configmaps n/"}},
		"all cover everything":          {append(names(0, 2, "n"), rule(`"namespace":""`)), []string{"configmaps"}},
		"a name everywhere covers that": {append(names(0, 2, "n"), rule(`"names":["c0"]`)), []string{"configmaps /c0", "configmaps n/c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range watchesFor(compile(t, v2Parent, test.rules...)) {
				got = append(got, (&fakeHandle{request: request}).name())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A watch that has all is as narrow as what it has.
func TestAMergedWatchIsNarrowedAgain(t *testing.T) {
	d := demand{}
	other := scope{extent: extent{resource: configMaps, namespace: "n0", name: "other"}}
	d.add(&other)
	for i := range 2 * maxOfResource {
		d.add(&scope{extent: extent{resource: configMaps, namespace: fmt.Sprint("n", i), name: "config"}})
	}
	if got := d.wanted(configMaps, allowed); len(got) != 1 || got[0].String() != "configmaps" {
		t.Errorf("two names in many namespaces are watched by %v", got)
	}
	d.remove(&other)
	if got := d.wanted(configMaps, allowed); len(got) != 1 || got[0].String() != "configmaps /config" {
		t.Errorf("one name in many namespaces is watched by %v", got)
	}
}

// Whatever comes and goes, the watches have all that is needed, are not too many, and none is there for nothing.
func TestWatchesHaveWhatIsNeeded(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	d := demand{}
	var needed []scope
	grow := true
	for step := range 4000 {
		if len(needed) > 400 || len(needed) == 0 {
			grow = len(needed) == 0
		}
		if random.Intn(3) > 0 == grow {
			s := scope{extent: extent{resource: configMaps}}
			if random.Intn(10) > 0 {
				s.namespace = fmt.Sprint("n", random.Intn(30))
			}
			if random.Intn(10) > 0 {
				s.name = fmt.Sprint("c", random.Intn(20))
			}
			d.add(&s)
			needed = append(needed, s)
		} else if len(needed) > 0 {
			last := len(needed) - 1
			i := random.Intn(len(needed))
			d.remove(&needed[i])
			needed[i] = needed[last]
			needed = needed[:last]
		}
		if step%50 == 0 {
			wantServed(t, d, needed)
		}
		watches := d.wanted(configMaps, allowed)
		if len(watches) > maxOfResource {
			t.Fatalf("%d watches", len(watches))
		}
		used := map[extent]bool{}
		for i := range needed {
			covered := false
			for _, w := range watches {
				if w.covers(&needed[i].extent) {
					covered, used[w.extent] = true, true
				}
			}
			if !covered {
				t.Fatalf("%s is not watched", needed[i].String())
			}
		}
		for _, w := range watches {
			if !used[w.extent] {
				t.Fatalf("%s is watched for nothing", w.String())
			}
		}
	}
	for i := range needed {
		d.remove(&needed[i])
	}
	if len(d) > 0 || d.wanted(configMaps, allowed) != nil {
		t.Error("without rules, something is watched")
	}
}

// wantServed checks that what is allowed by itself is watched, where wide watches are forbidden, by a watch that is allowed.
func wantServed(t *testing.T, d demand, needed []scope) {
	t.Helper()
	for _, forbidden := range []func(extent) bool{
		func(e extent) bool { return e.name == "" },
		func(e extent) bool { return e.namespace == "" },
		func(e extent) bool { return e.namespace == "" || e.name == "" && e.namespace < "n2" },
	} {
		watches := d.wanted(configMaps, forbidden)
		for i := range needed {
			served := slices.ContainsFunc(watches, func(w scope) bool { return w.covers(&needed[i].extent) && !forbidden(w.extent) })
			exact := slices.ContainsFunc(watches, func(w scope) bool { return w.extent == needed[i].extent })
			if !served && !(forbidden(needed[i].extent) && exact) {
				t.Fatalf("%s is not watched", needed[i].String())
			}
		}
	}
}

func allowed(extent) bool { return false }

// watchesFor returns what must be watched for the rules of all parents.
func watchesFor(all ...*Rules) []objectcache.Request {
	d := demand{}
	for _, rules := range all {
		for i := range rules.scopes {
			d.add(&rules.scopes[i])
		}
	}
	var requests []objectcache.Request
	for _, resource := range slices.SortedFunc(maps.Keys(d), compareResources) {
		for _, wanted := range d.wanted(resource, allowed) {
			requests = append(requests, wanted.request())
		}
	}
	return requests
}
