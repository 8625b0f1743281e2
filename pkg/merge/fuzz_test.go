// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime"
)

// random returns the same inputs in every run.
func random(n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		for range n {
			data := make([]byte, 20+random.IntN(200))
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			if !yield(data) {
				return
			}
		}
	}
}

// manyTrees reach every branch of the merge.
const manyTrees = 5000

func TestUpdateKeepsItsPromisesForManyTrees(t *testing.T) {
	for data := range random(manyTrees) {
		checkUpdate(t, data)
	}
}

func FuzzUpdate(f *testing.F) {
	for data := range random(20) {
		f.Add(data)
	}
	f.Fuzz(checkUpdate)
}

func TestManyMergesAreThoseOfMetacontroller(t *testing.T) {
	for data := range random(manyTrees) {
		checkMetacontroller(t, data)
	}
}

func FuzzMergeIsThatOfMetacontroller(f *testing.F) {
	for data := range random(20) {
		f.Add(data)
	}
	f.Fuzz(checkMetacontroller)
}

// trees makes what is observed, applied and desired, below spec.
func trees(data []byte) (observed, applied, desired map[string]any) {
	s := seeds(data)
	spec := s.object(4)
	first, second := s.like(spec, 4), s.like(spec, 4)
	if s.next(3) == 0 {
		first = second
	}
	wrap := func(spec any) map[string]any { return child(map[string]any{"spec": spec}) }
	return wrap(spec), wrap(first), wrap(second)
}

// checkUpdate: what is desired is there, what is not desired stays, and a second update changes nothing.
func checkUpdate(t *testing.T, data []byte) {
	observed, applied, desired := trees(data)
	text, err := record(applied)
	if err != nil {
		t.Fatal(err)
	}
	observed = stored(observed, text)
	verdict, err := update(t, observed, desired)
	if err != nil {
		t.Fatalf("%v\nobserved %v\napplied  %v\ndesired  %v", err, observed["spec"], applied["spec"], desired["spec"])
	}
	show := func() string {
		return fmt.Sprintf("observed %v\napplied  %v\ndesired  %v\nmerged   %v", observed["spec"], applied["spec"], desired["spec"], verdict.Object["spec"])
	}
	if same := reflect.DeepEqual(observed, verdict.Object); same == verdict.Differs {
		t.Fatalf("differs: %v\n%s", verdict.Differs, show())
	}
	if missing := lacks(verdict.Object["spec"], desired["spec"]); missing != "" {
		t.Fatalf("%s is desired and missing\n%s", missing, show())
	}
	if lost := loses(observed["spec"], applied["spec"], desired["spec"], verdict.Object["spec"]); lost != "" {
		t.Fatalf("%s is lost, which was never ours\n%s", lost, show())
	}
	if hasObjectKeys(observed) || hasObjectKeys(desired) {
		return
	}
	merged := runtime.DeepCopyJSON(verdict.Object)
	again, err := update(t, merged, desired)
	if err != nil || again.Differs {
		t.Fatalf("merging again: %v\n%s\n%s", err, cmp.Diff(merged, again.Object), show())
	}
}

// checkMetacontroller: where no two elements of a list have equal keys, nothing is another than it was, and nothing is
// written that would not have been.
func checkMetacontroller(t *testing.T, data []byte) {
	observed, applied, desired := trees(data)
	if hasEqualKeys(observed) || hasEqualKeys(applied) || hasEqualKeys(desired) {
		return
	}
	merged, differs := mergeObject(nil, observed, applied, desired)
	want := metacontroller(runtime.DeepCopyJSON(observed), runtime.DeepCopyJSON(applied), runtime.DeepCopyJSON(desired))
	if !matches(merged, want) {
		t.Fatalf("observed %v\napplied  %v\ndesired  %v\nmerged   %v\nwant     %v", observed, applied, desired, merged, want)
	}
	if differs && reflect.DeepEqual(any(observed), want) {
		t.Fatalf("a write that Metacontroller would not make: %s", cmp.Diff(observed, merged))
	}
}

// lacks returns what is desired and not in the merged tree.
func lacks(merged, desired any) string {
	switch want := desired.(type) {
	case map[string]any:
		object, ok := merged.(map[string]any)
		for key, value := range want {
			_, found := object[key]
			if missing := lacks(object[key], value); missing != "" && (found || value != nil) {
				return "." + key + missing
			}
		}
		if !ok {
			return "{}"
		}
	case []any:
		list, ok := merged.([]any)
		if !ok || len(list) < len(want) {
			return "[]"
		}
		taken := make([]bool, len(list))
		for i, element := range want {
			at := slices.IndexFunc(list, func(candidate any) bool { return lacks(candidate, element) == "" })
			for at >= 0 && taken[at] {
				next := slices.IndexFunc(list[at+1:], func(candidate any) bool { return lacks(candidate, element) == "" })
				if next < 0 {
					break // alike elements may be found in each other
				}
				at += 1 + next
			}
			if at < 0 {
				return fmt.Sprintf("[%d]", i)
			}
			taken[at] = true
		}
	case nil:
		switch merged.(type) {
		case nil, map[string]any, []any:
		default:
			return " (null)"
		}
	default:
		if !matches(merged, desired) {
			return fmt.Sprintf(" (%v)", desired)
		}
	}
	return ""
}

// loses returns a member of an object that was neither applied nor is desired, and has not stayed as it was.
func loses(observed, applied, desired, merged any) string {
	object, ok := observed.(map[string]any)
	result, still := merged.(map[string]any)
	if !ok || !still {
		return ""
	}
	last, _ := applied.(map[string]any)
	want, _ := desired.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		_, was := last[key]
		_, is := want[key]
		switch {
		case is:
			if lost := loses(object[key], last[key], want[key], result[key]); lost != "" {
				return "." + key + lost
			}
		case !was && !reflect.DeepEqual(object[key], result[key]):
			return "." + key
		}
	}
	return ""
}
