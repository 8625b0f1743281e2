// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// one returns an answer with one child.
const one = `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"a"}},"data":{"k":"1000m","other":"x"}}]}`

// inBothKinds runs a test with children whose kind has generations, and with others. They are created again when they differ.
func inBothKinds(t *testing.T, test func(t *testing.T, w *world)) {
	for _, generations := range []bool{true, false} {
		t.Run(fmt.Sprintf("generations: %v", generations), func(t *testing.T) {
			w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate))
			w.generations = generations
			test(t, w)
		})
	}
}

// normalises converts 1000m to 1, as an API server does.
func normalises(tree map[string]any) {
	if data := tree["data"].(map[string]any); data["k"] == "1000m" {
		data["k"] = "1"
	}
}

func set(field, value string) func(map[string]any) {
	return func(tree map[string]any) { tree["data"].(map[string]any)[field] = value }
}

// restart forgets what a process has learned: another one leads, or the CompositeController was edited.
func (w *world) restart() { w.history = history{} }

func TestNoRecreationAfterRestart(t *testing.T) {
	inBothKinds(t, func(t *testing.T, w *world) {
		w.mutate = normalises
		w.want(one, "create ConfigMap ns/a", "status")
		for range 20 {
			w.want(one)
			w.edit("a", func(tree map[string]any) { tree["status"] = w.version })
			w.want(one)
			w.restart()
			w.now = w.now.Add(time.Minute)
		}
	})
}

func TestNoRecreationAfterForeignEdits(t *testing.T) {
	inBothKinds(t, func(t *testing.T, w *world) {
		w.mutate = normalises
		w.sync(one)
		for i := range 5 {
			w.edit("a", set("replicas", fmt.Sprint(i))) // an autoscaler
			w.want(one)
			w.edit("a", func(tree map[string]any) {
				tree["metadata"].(map[string]any)["annotations"].(map[string]any)["theirs"] = fmt.Sprint(i)
			})
			w.want(one)
			w.restart()
		}
	})
}

func TestRecreateAfterEachEdit(t *testing.T) {
	for name, edit := range map[string]func(tree map[string]any){
		"a field": set("other", "mine"),
		"a field that the API server makes its own": set("k", "2"),
		"a field that is gone":                      func(tree map[string]any) { delete(tree["data"].(map[string]any), "other") },
		"a label":                                   func(tree map[string]any) { tree["metadata"].(map[string]any)["labels"] = map[string]any{"app": "mine"} },
	} {
		t.Run(name, func(t *testing.T) {
			inBothKinds(t, func(t *testing.T, w *world) {
				w.mutate = normalises
				w.sync(one)
				for range 5 {
					w.want(one)
					w.edit("a", edit)
					w.want(one, "recreate ConfigMap ns/a")
					w.want(one, "create ConfigMap ns/a")
					w.restart()
				}
			})
		})
	}
}

func TestRecreateOnDesiredChange(t *testing.T) {
	inBothKinds(t, func(t *testing.T, w *world) {
		w.mutate = normalises
		w.sync(one)
		w.want(one)
		other := strings.Replace(one, `"x"`, `"y"`, 1)
		w.want(other, "recreate ConfigMap ns/a")
		w.restart()
		w.want(other, "create ConfigMap ns/a")
		w.want(other)
		w.restart()
		w.want(other)
	})
}

func TestStuckChildIsReportedOnce(t *testing.T) {
	inBothKinds(t, func(t *testing.T, w *world) {
		w.mutate = normalises
		w.sync(one)
		for range 5 {
			w.edit("a", func(tree map[string]any) { tree["status"] = w.version })
			w.want(one)
		}
		if w.reported != 1 {
			t.Errorf("it was reported %d times", w.reported)
		}
		if most := map[bool]int{true: 0, false: 1}[w.generations]; w.trials > most {
			t.Errorf("%d dry runs, want %d", w.trials, most)
		}
	})
}

func TestDifferencesOf(t *testing.T) {
	tree := func(content string) map[string]any {
		tree, err := treeOf(text(content))
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	const observed = `{"metadata":{"labels":{"a":"b"},"annotations":{"metacontroller.k8s.io/last-applied-configuration":"x","c":"d"}},"spec":{"l":[{"name":"a","x":1},{"name":"b"}],"s":1}}`
	for name, test := range map[string]struct {
		merged string
		want   string
	}{
		"none":                   {observed, ""},
		"the record":             {strings.Replace(observed, `:"x"`, `:"y"`, 1), ""},
		"a label":                {strings.Replace(observed, `"a":"b"`, `"a":"c"`, 1), ".metadata.labels.a"},
		"an annotation":          {strings.Replace(observed, `"c":"d"`, `"e":"d"`, 1), ".metadata.annotations.c .metadata.annotations.e"},
		"a field of an element":  {strings.Replace(observed, `"x":1`, `"x":2`, 1), ".spec.l[0].x"},
		"an element more":        {strings.Replace(observed, `{"name":"b"}`, `{"name":"b"},{"name":"c"}`, 1), ".spec.l"},
		"another type":           {strings.Replace(observed, `"s":1`, `"s":{"a":1}`, 1), ".spec.s"},
		"a list that is no list": {strings.Replace(observed, `[{"name":"a","x":1},{"name":"b"}]`, `{}`, 1), ".spec.l"},
		"a field at the top":     {strings.Replace(observed, `"spec"`, `"data":1,"spec"`, 1), ".data"},
		"two fields":             {strings.NewReplacer(`"s":1`, `"s":2`, `"x":1`, `"x":2`).Replace(observed), ".spec.l[0].x .spec.s"},
	} {
		t.Run(name, func(t *testing.T) {
			found := differencesOf(tree(observed), tree(test.merged))
			if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != test.want {
				t.Errorf("they are at %q, want %q", got, test.want)
			}
		})
	}
}
