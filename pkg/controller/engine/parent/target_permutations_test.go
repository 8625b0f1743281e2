// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// patchTarget applies a patch as the API server does. It must change something: of a target only what differs is written.
func (w *world) patchTarget(change *metadataChange, status map[string]any) {
	w.t.Helper()
	body, err := patchOf(w.parent, change, status)
	if err != nil {
		w.t.Fatal(err)
	}
	patched, err := jsonpatch.MergePatch([]byte(w.parent), body)
	if err != nil {
		w.t.Fatal(err)
	}
	if precondition := text(body).GetResourceVersion(); precondition != w.parent.GetResourceVersion() {
		w.t.Errorf("the patch %s is for version %q of the target, which is %q", body, precondition, w.parent.GetResourceVersion())
	}
	if jsonpatch.Equal(patched, []byte(w.parent)) {
		w.t.Errorf("the patch %s changes nothing of the target %s", body, w.parent)
	}
	w.setTarget(patched)
}

// setTarget stores a target as its next version.
func (w *world) setTarget(content []byte) {
	w.t.Helper()
	tree, err := treeOf(text(content))
	if err != nil {
		w.t.Fatal(err)
	}
	w.version++
	tree["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(w.version)
	w.parent = textOf(w.t, tree)
}

// userPatches applies a JSON merge patch of another client to the target.
func (w *world) userPatches(patch map[string]any) {
	w.t.Helper()
	body, err := json.Marshal(patch)
	if err != nil {
		w.t.Fatal(err)
	}
	patched, err := jsonpatch.MergePatch([]byte(w.parent), body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.setTarget(patched)
}

// drawing draws answers, targets and what other clients do with both.
type drawing struct{ *rand.Rand }

// managed are the labels and annotations that all answers have something to say about, and attachments the names of all attachments.
var (
	managed     = []string{"a", "b", "example.com/c"}
	attachments = []string{"x", "y", "z"}
)

// values returns a value for each of the keys. A chance of one in n is that it is nil, for none.
func (d drawing) values(keys []string, n int) map[string]any {
	values := map[string]any{}
	for _, key := range keys {
		if values[key] = nil; d.IntN(n) > 0 {
			values[key] = strconv.Itoa(d.IntN(3))
		}
	}
	return values
}

// status returns the status of an answer, some members of which are null.
func (d drawing) status() map[string]any {
	status := d.values(managed, 3)
	if d.IntN(2) == 0 {
		status["inner"] = map[string]any{"count": d.IntN(3), "list": []any{d.IntN(2), d.values(managed[:1], 1<<30)}, "none": nil}
	}
	return status
}

// answer returns an answer about all labels and annotations of managed.
func (d drawing) answer(withStatus bool) map[string]any {
	desired := []any{}
	for _, name := range attachments {
		if d.IntN(2) == 0 {
			desired = append(desired, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"k": strconv.Itoa(d.IntN(2))},
			})
		}
	}
	d.Shuffle(len(desired), func(i, j int) { desired[i], desired[j] = desired[j], desired[i] })
	answer := map[string]any{"labels": d.values(managed, 3), "annotations": d.values(managed, 3), "attachments": desired}
	if withStatus {
		answer["status"] = d.status()
	}
	return answer
}

// happening is one thing that happens to a target, its attachments, the hook or the engine.
type happening struct {
	name string
	do   func(w *world, answer *string)
}

// happenings are those of one run, in any order. A sync may be between any two.
func (d drawing) happenings(final string) []happening {
	name, key, value := attachments[d.IntN(len(attachments))], managed[d.IntN(len(managed))], strconv.Itoa(d.IntN(3))
	ofAttachment := func(do func(w *world, key childKey)) func(*world, *string) {
		return func(w *world, _ *string) {
			if key := configMaps.key("ns", name); w.children[key] != nil {
				do(w, key)
			}
		}
	}
	all := []happening{
		{"another client sets " + key, func(w *world, _ *string) {
			w.userPatches(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value, "own": "kept"}, "annotations": map[string]any{key: nil}}})
		}},
		{"another client edits the status", func(w *world, _ *string) {
			w.userPatches(map[string]any{"status": map[string]any{key: "edited", "more": 1}})
		}},
		{"another client edits " + name, ofAttachment(func(w *world, _ childKey) { w.edit(name, setData("edited")) })},
		{"another client deletes " + name, ofAttachment(func(w *world, key childKey) { delete(w.children, key) })},
		{"the engine is started again", func(w *world, _ *string) { w.history = history{} }},
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return append(all[:3], happening{"the hook answers differently", func(_ *world, answer *string) { *answer = final }})
}

// stateOf returns what the answer and other clients decide: labels, annotations and status of the target, and its attachments.
func (w *world) stateOf() map[string]any {
	tree, err := treeOf(w.parent)
	if err != nil {
		w.t.Fatal(err)
	}
	state := map[string]any{"labels": w.parent.meta().Labels, "annotations": w.parent.meta().Annotations, "status": tree["status"]}
	for key, child := range w.children {
		content, err := treeOf(child)
		if err != nil {
			w.t.Fatal(err)
		}
		state["attachment "+key.name] = content["data"]
	}
	return state
}

// wantedState is the state that an answer leads to. own are the labels that only other clients have set.
func wantedState(t *testing.T, answer string, own map[string]string) map[string]any {
	t.Helper()
	tree, err := treeOf(text(answer))
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]any{"status": withoutNulls(tree["status"])}
	for _, member := range []string{"labels", "annotations"} {
		values := map[string]string{}
		for key, value := range tree[member].(map[string]any) {
			if value != nil {
				values[key] = value.(string)
			}
		}
		for key, value := range own {
			if member == "labels" {
				values[key] = value
			}
		}
		state[member] = values
	}
	for _, attachment := range tree["attachments"].([]any) {
		of := attachment.(map[string]any)
		state["attachment "+of["metadata"].(map[string]any)["name"].(string)] = of["data"]
	}
	return state
}

// Whatever happens in whatever order, a target and its attachments end as the last answer desires, the applied plan is empty, also for another
// process, and what the answer says nothing about stays.
func TestTargetPermutations(t *testing.T) {
	const runs = 8
	syncs, writes := 0, 0
	for seed := range uint64(runs) {
		d := drawing{rand.New(rand.NewPCG(seed, 17))}
		method := []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateInPlace, v1alpha1.ChildUpdateRecreate}[seed%2]
		encode := func(tree map[string]any) string { return string(textOf(t, tree)) }
		target := encode(map[string]any{
			"apiVersion": "example.com/v1", "kind": "Thing", "status": withoutNulls(d.status()),
			"metadata": map[string]any{
				"namespace": "ns", "name": "thing", "uid": "parent", "resourceVersion": "1", "generation": 3,
				"labels": withoutNulls(d.values(managed, 2)), "annotations": withoutNulls(d.values(managed, 2)),
			},
		})
		first, final := encode(d.answer(d.IntN(2) == 0)), encode(d.answer(true))
		all := d.happenings(final)
		for n, order := range orders(all) {
			var names []string
			w := newWorld(t)
			w.spec = decoratorSpec(t, func(s *v1alpha1.DecoratorControllerSpec) { s.Attachments[0].UpdateStrategy.Method = method })
			w.parent = text(target)
			answer, own := first, map[string]string{}
			sync := func() (did []string) {
				w.now = w.now.Add(time.Hour) // no backoff is left
				did = w.sync(answer)
				syncs, writes = syncs+1, writes+len(did)
				return did
			}
			between := rand.New(rand.NewPCG(seed, uint64(n)))
			for _, h := range order {
				for range between.IntN(3) {
					sync()
				}
				names = append(names, h.name)
				if h.do(w, &answer); strings.Contains(h.name, "sets") {
					own["own"] = "kept"
				}
			}
			run := fmt.Sprintf("seed %d, order %d (%s), method %s", seed, n, strings.Join(names, ", "), method)
			const most = 4 // a recreated attachment is created by the sync after its deletion
			for settled := 0; len(sync()) > 0; {
				if settled++; settled > most {
					t.Fatalf("%s: it is not settled after %d syncs", run, most)
				}
			}
			w.history = history{} // another process
			if did := sync(); did != nil || !w.last.isEmpty(0) {
				t.Errorf("%s: another process did %q, and its plan is empty: %t", run, did, w.last.isEmpty(0))
			}
			if diff := cmp.Diff(wantedState(t, final, own), w.stateOf()); diff != "" {
				t.Errorf("%s: it ends in another state (-want +got):\n%s", run, diff)
			}
			if t.Failed() {
				return
			}
		}
	}
	if writes < 3*runs*24 {
		t.Errorf("%d syncs made %d writes: nothing is tested", syncs, writes)
	}
}

// orders returns all orders of the happenings.
func orders(of []happening) [][]happening {
	if len(of) == 0 {
		return [][]happening{nil}
	}
	var all [][]happening
	for i := range of {
		rest := slices.Concat(of[:i], of[i+1:])
		for _, order := range orders(rest) {
			all = append(all, append([]happening{of[i]}, order...))
		}
	}
	return all
}
