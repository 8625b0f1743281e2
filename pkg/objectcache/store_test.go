// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheStoreFindsEveryObjectWhereItBelongs(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	s := newStore()
	model := map[objectName]*RawObject{}
	for round := range 5000 {
		name := objectName{fmt.Sprint("n", random.Intn(3)), fmt.Sprint("o", random.Intn(60))}
		if random.Intn(3) == 0 {
			s.remove(name)
			delete(model, name)
		} else {
			owners := ""
			if owner := random.Intn(6); owner > 0 {
				owners = fmt.Sprintf(`,"ownerReferences":[{"uid":"owner%d","controller":true}]`, owner)
			}
			o := mustParse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"X","metadata":{"namespace":%q,"name":%q,"resourceVersion":"%d"%s}}`, name.namespace, name.name, round, owners))
			s.put(o)
			model[name] = o
		}
		if round%100 == 0 {
			wantStore(t, s, model)
		}
	}
	for name := range model {
		s.remove(name)
	}
	if len(s.namespaces)+len(s.owned) > 0 {
		t.Error("an empty store holds something")
	}
}

func wantStore(t *testing.T, s *store, model map[objectName]*RawObject) {
	t.Helper()
	owned, ownerless := map[types.UID][]string{}, map[string][]string{}
	for name, o := range model {
		if s.get(name) != o || s.known([]byte(name.namespace), []byte(name.name)) != o {
			t.Fatalf("%v is not found", name)
		}
		if uid := o.ControllerUID(); uid != "" {
			owned[uid] = append(owned[uid], o.JSON())
		} else {
			ownerless[name.namespace] = append(ownerless[name.namespace], o.JSON())
		}
	}
	gotOwned, gotOwnerless := map[types.UID][]string{}, map[string][]string{}
	for uid, bucket := range s.owned {
		for _, o := range bucket {
			gotOwned[uid] = append(gotOwned[uid], o.JSON())
		}
	}
	for namespace := range s.namespaces {
		s.eachOwnerless(namespace, func(o *RawObject) { gotOwnerless[namespace] = append(gotOwnerless[namespace], o.JSON()) })
	}
	for _, texts := range []map[string][]string{ownerless, gotOwnerless} {
		for _, list := range texts {
			slices.Sort(list)
		}
	}
	for _, texts := range []map[types.UID][]string{owned, gotOwned} {
		for _, list := range texts {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(owned, gotOwned); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(ownerless, gotOwnerless); diff != "" {
		t.Fatal(diff)
	}
	count := 0
	s.each("", func(*RawObject) { count++ })
	if count != len(model) {
		t.Fatalf("the store has %d objects of %d", count, len(model))
	}
}
