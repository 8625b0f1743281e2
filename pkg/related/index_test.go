// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/objectcache"
)

// world is what there is, for tests that compare with what comes out of trying every rule on every object.
type world struct {
	t       testing.TB
	pick    func(n int) int // returns less than n
	index   Index[int]
	rules   map[int]*Rules
	objects map[schema.GroupVersionResource]map[place]*objectcache.RawObject
	version int
}

func newWorld(t testing.TB, pick func(n int) int) *world {
	return &world{t: t, pick: pick, rules: map[int]*Rules{}, objects: map[schema.GroupVersionResource]map[place]*objectcache.RawObject{}}
}

func (w *world) among(of ...string) string { return of[w.pick(len(of))] }

func (w *world) randomSelector() string {
	return w.among(`{"matchLabels":{"app":"x"}}`, `{"matchLabels":{"app":"y"}}`, `{"matchLabels":{"app":"x","tier":"a"}}`, `{}`,
		`{"matchExpressions":[{"key":"app","operator":"In","values":["x","y"]}]}`, `{"matchExpressions":[{"key":"app","operator":"NotIn","values":["x"]}]}`,
		`{"matchExpressions":[{"key":"tier","operator":"Exists"}]}`, `{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}`)
}

func (w *world) randomRule() string {
	resource := w.among("configmaps", "configmaps", "secrets", "nodes", "namespaces")
	fields := []string{`"apiVersion":"v1"`, `"resource":"` + resource + `"`}
	scoped := resource == "nodes" || resource == "namespaces"
	switch w.pick(4) {
	case 0:
		fields = append(fields, w.among(`"names":["a"]`, `"names":["a","b"]`, `"names":[""]`, `"names":["n1","c"]`))
	case 1, 2:
		fields = append(fields, `"labelSelector":`+w.randomSelector())
	}
	switch byName := strings.Contains(fields[len(fields)-1], "names\":["); {
	case scoped:
	case w.pick(3) == 0:
		fields = append(fields, w.among(`"namespace":"n1"`, `"namespace":"n2"`))
	case w.pick(2) == 0 && !byName:
		fields = append(fields, `"namespaceSelector":`+w.randomSelector())
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (w *world) get(resource schema.GroupVersionResource, namespace, name string) *objectcache.RawObject {
	return w.objects[resource][place{resource, namespace, name}]
}

func (w *world) namespaceOf(o *objectcache.RawObject) *objectcache.RawObject {
	return w.get(namespacesResource, "", o.GetNamespace())
}

// matching returns the keys with a rule that matches.
func (w *world) matching(matches func(rule *Rule) bool) (keys []int) {
	for key, rules := range w.rules {
		for i := range rules.rules {
			if matches(&rules.rules[i]) {
				keys = append(keys, key)
				break
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// change makes, changes or deletes an object, and compares the keys that the index finds with those that it should.
func (w *world) change(resource schema.GroupVersionResource, namespace, name string) {
	at := place{resource, namespace, name}
	before := w.objects[resource][at]
	w.version++
	var after *objectcache.RawObject
	if w.pick(4) > 0 {
		set := map[string]string{}
		if app := w.among("x", "y", "z", ""); app != "" {
			set["app"] = app
		}
		if tier := w.among("a", "b", ""); tier != "" {
			set["tier"] = tier
		}
		after = object(w.t, resource, namespace, name, strconv.Itoa(w.version), set)
	}
	if before == nil && after == nil {
		return
	}
	at0 := after
	if at0 == nil {
		at0 = before
	}
	in := w.namespaceOf(at0)
	want := w.matching(func(rule *Rule) bool {
		return rule.resource == resource && (rule.matches(before, in) || rule.matches(after, in))
	})
	got := w.index.AppendChanged(nil, Change{Resource: resource, Before: before, After: after, Namespace: in})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("a change of %v: %s", at, diff)
	}
	if resource == namespacesResource {
		want := w.matching(func(rule *Rule) bool {
			return rule.byNamespaces && (rule.namespace == "" || rule.namespace == name) &&
				(before != nil && rule.namespaces.Matches(before.Labels())) != (after != nil && rule.namespaces.Matches(after.Labels()))
		})
		got := w.index.AppendRelabelled(nil, before, after)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Fatalf("a relabelled namespace %v: %s", at, diff)
		}
	}
	if w.objects[resource] == nil {
		w.objects[resource] = map[place]*objectcache.RawObject{}
	}
	if w.objects[resource][at] = after; after == nil {
		delete(w.objects[resource], at)
	}
}

func (w *world) step() {
	switch w.pick(6) {
	case 0:
		key := w.pick(12)
		bounds := []Bounds{clusterParent, v2Parent, {Version: v2Parent.Version, EngineNamespace: "n1"}}[w.pick(3)]
		var texts []string
		for range w.pick(4) {
			texts = append(texts, w.randomRule())
		}
		answer, err := parse(texts, bounds)
		if err != nil {
			return // another namespace than that of the engine
		}
		rules, err := answer.Resolve(served)
		if err != nil {
			w.t.Fatal(err)
		}
		w.rules[key] = rules
		w.index.Set(key, rules)
	case 1:
		key := w.pick(12)
		delete(w.rules, key)
		w.index.Delete(key)
	case 2:
		w.change(namespacesResource, "", w.among("n1", "n2", "n3"))
	case 3:
		w.change(nodes, "", w.among("a", "b", "c"))
	default:
		w.change([]schema.GroupVersionResource{configMaps, secrets}[w.pick(2)], w.among("n1", "n2", "n3"), w.among("a", "b", "c"))
	}
}

// Get and List implement Reader.
func (w *world) Get(resource schema.GroupVersionResource, namespace, name string) *objectcache.RawObject {
	return w.get(resource, namespace, name)
}

func (w *world) List(resource schema.GroupVersionResource, namespace, name string, selector labels.Selector) (found []*objectcache.RawObject) {
	for at, o := range w.objects[resource] {
		if (namespace == "" || at.namespace == namespace) && (name == "" || at.name == name) && (selector == nil || selector.Matches(o.Labels())) {
			found = append(found, o)
		}
	}
	return found
}

// wantSelections compares what is selected with what matches.
func (w *world) wantSelections() {
	for key, rules := range w.rules {
		want := map[string][]string{}
		for i := range rules.rules {
			rule := &rules.rules[i]
			group := rule.kind().String()
			if want[group] == nil {
				want[group] = []string{}
			}
			for _, o := range w.objects[rule.resource] {
				text := o.GetNamespace() + "/" + o.GetName() + "@" + o.GetResourceVersion()
				if rule.matches(o, w.namespaceOf(o)) && !slices.Contains(want[group], text) {
					want[group] = append(want[group], text)
				}
			}
			slices.Sort(want[group])
		}
		got := map[string][]string{}
		for _, group := range rules.Select(w).Groups {
			of := schema.FromAPIVersionAndKind(group.APIVersion, group.Kind).String()
			got[of] = []string{}
			for _, shown := range group.Objects {
				got[of] = append(got[of], shown.Namespace+"/"+shown.Name+"@"+versionOf(w.t, shown.JSON))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Fatalf("key %d: %s", key, diff)
		}
	}
}

func versionOf(t testing.TB, text string) string {
	o, err := objectcache.Parse([]byte(text), false)
	if err != nil {
		t.Fatal(err)
	}
	return o.GetResourceVersion()
}

// empty deletes all keys, after which the index must hold nothing.
func (w *world) empty() {
	for key := range w.rules {
		w.index.Delete(key)
	}
	x := &w.index
	if n := len(x.keys) + len(x.entries) + len(x.named) + len(x.others) + len(x.namespaces) + x.selectors.Len(); n > 0 {
		w.t.Errorf("an index without keys holds %d things", n)
	}
}

func TestAChangeFindsExactlyTheKeysThatItConcerns(t *testing.T) {
	for seed := range int64(15) {
		random := rand.New(rand.NewSource(seed))
		w := newWorld(t, random.Intn)
		for i := range 500 {
			w.step()
			if i%100 == 99 {
				w.wantSelections()
			}
		}
		w.empty()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzIndex(f *testing.F) {
	random := rand.New(rand.NewSource(1))
	for range 20 {
		seed := make([]byte, 400)
		random.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		w := newWorld(t, func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			choice := int(choices[0])
			choices = choices[1:]
			return choice % n
		})
		for len(choices) > 0 {
			w.step()
		}
		w.wantSelections()
		w.empty()
	})
}

// Selections do not depend on the order in which objects appeared and rules were set.
func TestTheOrderOfEventsDoesNotMatter(t *testing.T) {
	rules := compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","namespaceSelector":{"matchLabels":{"app":"x"}}}`,
		`{"apiVersion":"v1","resource":"configmaps","names":["b"]}`)
	events := []struct {
		of              schema.GroupVersionResource
		namespace, name string
		labels          map[string]string
	}{
		{namespacesResource, "", "n1", map[string]string{"app": "x"}},
		{namespacesResource, "", "n2", nil},
		{configMaps, "n1", "a", nil},
		{configMaps, "n2", "b", nil},
	}
	var first *Selection
	permute(len(events), func(order []int) {
		w := newWorld(t, nil)
		w.index.Set(1, rules)
		notified := false
		var last Selection
		for _, i := range order {
			e := events[i]
			o := object(t, e.of, e.namespace, e.name, strconv.Itoa(i), e.labels)
			if w.objects[e.of] == nil {
				w.objects[e.of] = map[place]*objectcache.RawObject{}
			}
			w.objects[e.of][place{e.of, e.namespace, e.name}] = o
			keys := w.index.AppendChanged(nil, Change{Resource: e.of, After: o, Namespace: w.namespaceOf(o)})
			if e.of == namespacesResource {
				keys = w.index.AppendRelabelled(keys, nil, o)
			}
			is := rules.Select(w)
			if changed := is.Sum != last.Sum; changed && notified && len(keys) == 0 {
				t.Errorf("%v: the selection has changed with %s, and the key was not found", order, e.name)
			}
			last, notified = is, true
		}
		if first == nil {
			first = &last
		}
		if diff := cmp.Diff(*first, last); diff != "" {
			t.Errorf("%v: %s", order, diff)
		}
	})
	if n := len(first.Groups[0].Objects); n != 2 {
		t.Errorf("%d objects are selected", n)
	}
}

func permute(n int, try func(order []int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			try(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

func TestIdenticalRulesAreHeldOnce(t *testing.T) {
	var index Index[int]
	for key := range 1000 {
		index.Set(key, compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","names":["shared"]}`, `{"apiVersion":"v1","resource":"nodes"}`))
	}
	if keys, rules := index.Len(); keys != 1000 || rules != 2 {
		t.Errorf("%d keys and %d rules", keys, rules)
	}
	if n := len(index.AppendChanged(nil, Change{Resource: nodes, After: object(t, nodes, "", "a", "1", nil)})); n != 1000 {
		t.Errorf("%d keys are found", n)
	}
}

// BenchmarkChange is the cost of one change of an object, of which one of N keys has a rule that matches it.
func BenchmarkChange(b *testing.B) {
	for _, kind := range []string{"names", "labels", "namespace", "namespaceSelector"} {
		for _, keys := range []int{100, 10000} {
			b.Run(fmt.Sprintf("%s/%dkeys", kind, keys), func(b *testing.B) {
				var index Index[int]
				for key := range keys {
					rule := map[string]string{
						"names":             `"names":["i%d"]`,
						"labels":            `"labelSelector":{"matchLabels":{"app":"web","instance":"i%d"}}`,
						"namespace":         `"namespace":"i%d"`,
						"namespaceSelector": `"namespaceSelector":{"matchLabels":{"team":"i%d"}}`,
					}[kind]
					index.Set(key, compile(b, v2Parent, `{"apiVersion":"v1","resource":"configmaps",`+fmt.Sprintf(rule, key)+`}`))
				}
				set := map[string]string{"app": "web", "instance": "i42", "component": "x"}
				change := Change{
					Resource:  configMaps,
					Before:    object(b, configMaps, "i42", "i42", "1", set),
					After:     object(b, configMaps, "i42", "i42", "2", set),
					Namespace: object(b, namespacesResource, "", "i42", "1", map[string]string{"team": "i42"}),
				}
				var found []int
				b.ReportAllocs()
				for b.Loop() {
					found = index.AppendChanged(found[:0], change)
				}
				if len(found) != 1 || found[0] != 42 {
					b.Errorf("%d keys are found", len(found))
				}
			})
		}
	}
}

// matches is the oracle: it reports whether the rule selects the object, which is of its resource. in is the Namespace of the object, nil if it is unknown.
func (r *Rule) matches(o, in *objectcache.RawObject) bool {
	switch {
	case o == nil || r.namespace != "" && o.GetNamespace() != r.namespace:
		return false
	case r.selector != nil && !r.selector.Matches(o.Labels()):
		return false
	case r.byNamespaces && (in == nil || !r.namespaces.Matches(in.Labels())):
		return false
	case r.byName:
		_, found := slices.BinarySearch(r.names, o.GetName())
		return found
	}
	return true
}
