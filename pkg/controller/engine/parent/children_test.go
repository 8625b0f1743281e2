// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/objectcache"
)

// TestUpdateOfChildren changes what is listed at random: children that were brought up to date are those that are gathered otherwise.
func TestUpdateOfChildren(t *testing.T) {
	spec, parent := specWith(t), parentWith("")
	selector, err := spec.selectorOf(parent)
	if err != nil {
		t.Fatal(err)
	}
	random, version, updates := rand.New(rand.NewPCG(1, 2)), 0, 0
	child := func(name string, uid int, label string) *objectcache.RawObject {
		version++
		o, err := objectcache.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":%q,"uid":"u%d","resourceVersion":"%d","labels":{"app":%q},`+
			`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"thing","uid":"parent","controller":true}]}}`, name, uid, version, label), false)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	claimOf := func(all []candidates) claims {
		return spec.claim(parent, selector, asObjects(all[0].owned), asObjects(all[0].orphans), noParent)
	}
	isChild := func(o object) bool {
		return len(spec.claim(parent, selector, []object{o}, nil, noParent).children) == 1
	}
	var owned []*objectcache.RawObject
	for i := range 20 {
		owned = append(owned, child(fmt.Sprint("c-", i), i, "a"))
	}
	var kept *children
	for range 2000 {
		owned = slices.Clone(owned) // each list is a new one
		at := random.IntN(len(owned))
		name, uid := owned[at].GetName(), 0
		_, _ = fmt.Sscanf(string(owned[at].GetUID()), "u%d", &uid)
		switch random.IntN(60) {
		case 0:
			owned[at] = child(name, version+100, "a") // recreated
		case 1:
			owned = append(owned, child(fmt.Sprint("d-", version), version+100, "a"))
		case 2:
			if len(owned) > 10 {
				owned = slices.Delete(owned, at, at+1)
			}
		case 3:
			owned[at] = child(name, uid, "other") // to be released
		case 4:
			random.Shuffle(len(owned), func(i, j int) { owned[i], owned[j] = owned[j], owned[i] })
		default:
			owned[at] = child(name, uid, "a")
		}
		all := []candidates{{owned: owned}}
		if random.IntN(20) == 0 {
			all[0].orphans = owned[:1]
		}
		want := spec.grouped([]claims{claimOf(all)})
		got := kept
		if got != nil && got.update(all, spec.children, isChild) {
			updates++
		} else {
			got = spec.grouped([]claims{claimOf(all)})
			got.setListed(all)
		}
		if diff := cmp.Diff(want.groups, got.groups); diff != "" || want.sum != got.sum || len(want.byKey) != len(got.byKey) {
			t.Fatalf("the children differ, or their hash: %s", diff)
		}
		for key, o := range want.byKey {
			if got.byKey[key] != o {
				t.Fatalf("%s is another object", key)
			}
		}
		kept = got
	}
	if updates < 500 {
		t.Errorf("%d updates were possible, want more", updates)
	}
}
