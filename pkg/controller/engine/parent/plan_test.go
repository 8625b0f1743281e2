// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/merge"
)

const answered = `{"status":{"ready":1},"children":[
	{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","labels":{"app":"a"}},"data":{"k":"1"}},
	{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"a"}},"data":{"k":"1"}}]}`

// world is a parent with its children. Plans are applied to it as by an API server.
type world struct {
	t        *testing.T
	spec     *Spec
	parent   text
	children map[childKey]object
	history  history
	now      time.Time
	version  int
	// mutate is what the API server makes of each object that is written.
	mutate func(tree map[string]any)
	// generations reports whether the children are of a kind that has them.
	generations bool
	// trials counts dry runs, and reported the children that were reported as stuck.
	trials, reported int
	// last is the plan that was carried out last.
	last plan
}

func newWorld(t *testing.T, edits ...edit) *world {
	return &world{t: t, spec: specWith(t, edits...), parent: parentWith(""), children: map[childKey]object{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), version: 100, mutate: func(map[string]any) {}}
}

func (w *world) decide(called phase, body string) (plan, error) {
	w.t.Helper()
	selector, err := w.spec.selectorOf(w.parent)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.spec.decide(observed{
		parent: w.parent, of: w.spec.parents[0], selector: selector, children: w.children, history: w.history, called: called,
		answer: answerOf(w.t, w.spec, w.parent, body), sum: maphash.String(seed, body), now: w.now,
	}, merge.Update)
}

// sync decides a plan from the answer, applies it, and returns what was done.
func (w *world) sync(body string) (did []string) {
	w.t.Helper()
	p, err := w.decide(phaseSync, body)
	if err = errors.Join(append(p.problems, err)...); err != nil {
		w.t.Fatal(err)
	}
	w.reported += len(p.stuck)
	for _, s := range p.steps {
		if w.isFutile(s) {
			if p.history.recordFutile(s) {
				w.reported++
			}
			continue
		}
		did = append(did, s.String())
		switch s.verb {
		case verbDelete, verbRecreate:
			delete(w.children, s.child)
			p.history.recordDone(s, "")
		default:
			written := w.write(s.object)
			w.children[s.child] = written
			p.history.recordDone(s, written.GetResourceVersion())
		}
	}
	if p.metadata != nil {
		did = append(did, "metadata")
		w.patchTarget(p.metadata, nil)
		p.history.recordMetadataDone()
	}
	if p.status != nil {
		did = append(did, "status")
		before := w.parent.GetResourceVersion()
		if w.spec.kind == Decorator {
			w.patchTarget(nil, p.status)
		} else {
			w.setStatus(p.status)
		}
		p.history.recordStatusDone(p.status, before, w.parent)
	}
	w.history = p.history
	w.last = p
	return did
}

// isFutile makes the trial of a step, if it has one.
func (w *world) isFutile(s childStep) bool {
	if s.trial == nil {
		return false
	}
	w.trials++
	created, err := treeOf(w.write(s.trial.object))
	if err != nil {
		w.t.Fatal(err)
	}
	futile, err := s.trial.futile(created, merge.Update)
	if err != nil {
		w.t.Fatal(err)
	}
	return futile
}

// setStatus sets the status of the parent.
func (w *world) setStatus(status map[string]any) {
	tree, err := treeOf(w.parent)
	if err != nil {
		w.t.Fatal(err)
	}
	w.version++
	tree["status"] = status
	tree["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(w.version)
	w.parent = textOf(w.t, tree)
}

func (w *world) write(tree map[string]any) text {
	tree, err := treeOf(textOf(w.t, tree))
	if err != nil {
		w.t.Fatal(err)
	}
	w.mutate(tree)
	w.version++
	metadata := tree["metadata"].(map[string]any)
	metadata["resourceVersion"] = strconv.Itoa(w.version)
	metadata["uid"] = fmt.Sprintf("uid-%s", metadata["name"])
	if generation, _ := metadata["generation"].(int64); w.generations {
		metadata["generation"] = max(generation, 1)
	}
	return textOf(w.t, tree)
}

// edit is a change of a child by another client.
func (w *world) edit(name string, change func(tree map[string]any)) {
	key := configMaps.key("ns", name)
	tree, err := treeOf(w.children[key])
	if err != nil {
		w.t.Fatal(err)
	}
	before := merge.HashTree(tree["data"])
	change(tree)
	if metadata := tree["metadata"].(map[string]any); w.generations && merge.HashTree(tree["data"]) != before {
		metadata["generation"] = metadata["generation"].(int64) + 1
	}
	w.children[key] = w.write(tree)
}

func setData(value string) func(map[string]any) {
	return func(tree map[string]any) { tree["data"] = map[string]any{"k": value} }
}

func (w *world) want(body string, did ...string) {
	w.t.Helper()
	if diff := cmp.Diff(did, w.sync(body)); diff != "" {
		w.t.Errorf("it did something else (-want +got):\n%s", diff)
	}
}

func TestAppliedPlanIsEmpty(t *testing.T) {
	for _, method := range []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateOnDelete, v1alpha1.ChildUpdateRecreate, v1alpha1.ChildUpdateInPlace} {
		for _, generate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, selector generated: %v", method, generate), func(t *testing.T) {
				w := newWorld(t, withMethod(method), func(s *v1alpha1.CompositeControllerSpec) { s.GenerateSelector = &generate })
				w.want(answered, "create ConfigMap ns/b", "create ConfigMap ns/a", "status")
				w.want(answered)
				w.history = history{} // another process
				w.want(answered)
				w.want(`{"status":{"ready":1}}`, "delete ConfigMap ns/a", "delete ConfigMap ns/b")
				w.want(`{"status":{"ready":1}}`)
			})
		}
	}
}

func TestUpdateMethods(t *testing.T) {
	changedAnswer := strings.ReplaceAll(answered, `"k":"1"`, `"k":"2"`)
	for method, want := range map[v1alpha1.ChildUpdateMethod][][]string{
		v1alpha1.ChildUpdateOnDelete: {nil, nil},
		v1alpha1.ChildUpdateInPlace:  {{"update ConfigMap ns/b", "update ConfigMap ns/a"}, nil},
		v1alpha1.ChildUpdateRecreate: {{"recreate ConfigMap ns/b", "recreate ConfigMap ns/a"}, {"create ConfigMap ns/b", "create ConfigMap ns/a"}, nil},
	} {
		t.Run(string(method), func(t *testing.T) {
			w := newWorld(t, withMethod(method))
			w.sync(answered)
			for _, did := range want {
				w.want(changedAnswer, did...)
			}
		})
	}
}

func TestFieldOfOtherTypeDiffers(t *testing.T) {
	retyped := strings.ReplaceAll(answered, `"data":{"k":"1"}`, `"data":["k"]`)
	for method, want := range map[v1alpha1.ChildUpdateMethod][]string{
		v1alpha1.ChildUpdateOnDelete: nil,
		v1alpha1.ChildUpdateInPlace:  {"update ConfigMap ns/b", "update ConfigMap ns/a"},
		v1alpha1.ChildUpdateRecreate: {"recreate ConfigMap ns/b", "recreate ConfigMap ns/a"},
	} {
		t.Run(string(method), func(t *testing.T) {
			w := newWorld(t, withMethod(method))
			w.sync(answered)
			w.want(retyped, want...)
		})
	}
}

func TestEditIsRevertedEachTime(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	for range 5 {
		w.edit("a", setData("mine"))
		w.want(answered, "update ConfigMap ns/a")
		w.want(answered)
	}
}

func TestUnchangedChildIsNotParsed(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	w.sync(answered)
	for key, child := range w.children {
		w.children[key] = headerOnly{child}
	}
	w.want(answered)
}

// headerOnly is an object of which only the header may be read.
type headerOnly struct{ object }

func (headerOnly) JSON() string { panic("an unchanged child was read") }

func TestFutileUpdatesBackOff(t *testing.T) {
	w := newWorld(t)
	w.mutate = setData("the API server's")
	w.sync(answered)
	updates := 0
	for range 360 { // an hour
		w.edit("a", func(tree map[string]any) { tree["status"] = w.version }) // whatever else happens to the child
		for _, did := range w.sync(answered) {
			if did == "update ConfigMap ns/a" {
				updates++
			}
		}
		w.now = w.now.Add(10 * time.Second)
	}
	if updates < 19 || updates > 21 {
		t.Errorf("%d updates in an hour, want about 20: ten in the first ten minutes, ever rarer, then one every five minutes", updates)
	}
}

// Each created object differs, also in a dry run: only a recreation shows that it changes nothing.
func TestRecreationsAreLimited(t *testing.T) {
	w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate))
	w.mutate = func(tree map[string]any) { setData(fmt.Sprint("random ", w.version))(tree) }
	deleted := 0
	for range 200 {
		for _, did := range w.sync(answered) {
			if did == "recreate ConfigMap ns/a" {
				deleted++
			}
		}
		w.now = w.now.Add(time.Minute)
	}
	if deleted != 2 || w.reported != 2 {
		t.Errorf("the child was deleted %d times and %d children were reported, want 2 and 2 (once each)", deleted, w.reported)
	}
	w.mutate = func(map[string]any) {}
	other := strings.ReplaceAll(answered, `"k":"1"`, `"k":"2"`)
	w.want(other, "recreate ConfigMap ns/b", "recreate ConfigMap ns/a")
}

// A Pod differs in other fields after it is scheduled: each single difference appears only from time to time.
func TestAlternatingDifferences(t *testing.T) {
	w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate))
	round := 0
	w.mutate = func(tree map[string]any) { setData("odd" + strconv.Itoa(round/2%2))(tree) }
	deleted := 0
	for ; round < 200; round++ {
		for _, did := range w.sync(answered) {
			if did == "recreate ConfigMap ns/a" {
				deleted++
			}
		}
		w.now = w.now.Add(time.Minute)
	}
	if deleted > 2 {
		t.Errorf("the child was deleted %d times", deleted)
	}
}

func TestIgnoredUpdateIsNotRepeated(t *testing.T) {
	m := history{children: childHistories{}}
	key := configMaps.key("ns", "a")
	step := childStep{verb: verbUpdate, child: key, resourceVersion: "5", attempt: attempt{desired: 42}}
	m.recordDone(step, "5")
	if got := m.children.of(key).synced; got != (version{42, "5"}) {
		t.Errorf("settled is %v, so it would be written again", got)
	}
}

func TestTerminatingChildIsAwaited(t *testing.T) {
	w := newWorld(t, withMethod(v1alpha1.ChildUpdateRecreate))
	w.sync(answered)
	w.edit("a", func(tree map[string]any) {
		setData("mine")(tree)
		tree["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	})
	w.want(answered)
	w.want(`{"status":{"ready":1}}`, "delete ConfigMap ns/b")
}

func TestUnselectedChildFails(t *testing.T) {
	w := newWorld(t, withFinalize)
	w.parent = parentWith(`"finalizers":["metacontroller.io/compositecontroller-cc"],` + deleting)
	body := strings.Replace(answered, `{"app":"a"}`, `{"app":"other"}`, 1)
	_, err := w.decide(phaseFinalize, strings.Replace(body, `{`, `{"finalized":true,`, 1))
	if wrong, ok := errors.AsType[*unselectedError](err); !ok || wrong.child != "ConfigMap ns/b" {
		t.Errorf("the error is %v, and must name the child", err)
	}
}

func TestFinalizedOfSyncIsIgnored(t *testing.T) {
	const held = `"finalizers":["metacontroller.io/compositecontroller-cc"]`
	for _, test := range []struct {
		called   phase
		metadata string
		want     bool
	}{{phaseSync, held, false}, {phaseFinalize, held, true}, {phaseFinalize, held + "," + deleting, true}, {phaseFinalize, deleting, false}} {
		w := newWorld(t, withFinalize)
		w.parent = parentWith(test.metadata)
		p, err := w.decide(test.called, `{"finalized":true,"status":{"a":1}}`)
		if err != nil {
			t.Fatal(err)
		}
		if p.removeFinalizer != test.want {
			t.Errorf("%s with %s: the finalizer is removed: %v, want %v", test.called, test.metadata, p.removeFinalizer, test.want)
		}
		writes := strings.Contains(test.metadata, held) && !(test.want && w.parent.Deleting())
		if (p.status != nil) != writes {
			t.Errorf("%s with %s: the status to be written is %v", test.called, test.metadata, p.status)
		}
	}
}

func TestDeletedParentKeepsChildren(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	w.parent = parentWith(deleting)
	w.want(`{}`)
}

func TestMergeErrorDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	p, err := w.decide(phaseSync, strings.Replace(strings.Replace(answered, `"name":"b"`, `"name":"b","annotations":{"a":5}`, 1), `"k":"1"}}]`, `"k":"2"}}]`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.problems) != 1 || !strings.Contains(p.problems[0].Error(), "ConfigMap ns/b") {
		t.Errorf("the problems are %v, want one that names ConfigMap ns/b", p.problems)
	}
	if got := fmt.Sprint(p.steps); got != "[update ConfigMap ns/a]" {
		t.Errorf("the steps are %v", got)
	}
}

func TestForeignObjectIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	key := configMaps.key("ns", "a")
	for i, want := range []bool{true, false} {
		p, err := w.decide(phaseSync, answered)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && p.requeueAfter != foreignRetryInterval {
			t.Errorf("it comes back after %v, want %v", p.requeueAfter, foreignRetryInterval)
		}
		if news := p.history.recordForeign(key); news != want {
			t.Errorf("time %d: news %v, want %v", i, news, want)
		}
		w.history = p.history
	}
}

func TestNewChildHasNoSystemFields(t *testing.T) {
	r := specWith(t)
	parent := parentWith("")
	answer := answerOf(t, r, parent, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"},"metadata":{"name":"m","labels":{"app":"a"},"annotations":{"x":"y"},
		"uid":"u","resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:00Z",
		"deletionGracePeriodSeconds":30,"selfLink":"/m","managedFields":[{"manager":"m"}]}}]}`)
	selector, err := r.selectorOf(parent)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.decide(observed{parent: parent, of: r.parents[0], selector: selector, called: phaseSync, answer: answer}, merge.Update)
	if err != nil || len(p.steps) != 1 {
		t.Fatalf("%d steps, error %v", len(p.steps), err)
	}
	metadata := p.steps[0].object["metadata"].(map[string]any)
	var fields []string
	for field := range metadata {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	if want := []string{"annotations", "labels", "name", "namespace", "ownerReferences"}; !slices.Equal(fields, want) {
		t.Errorf("the metadata has %v, want %v", fields, want)
	}
}

// TestNewChildHasItsController: whatever owner references the hook gives, the parent is the controller, once.
func TestNewChildHasItsController(t *testing.T) {
	const (
		own   = `{"apiVersion":"example.com/v1","kind":"Thing","name":"thing","uid":"parent","controller":true,"blockOwnerDeletion":true}`
		other = `{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"other"}`
	)
	for name, test := range map[string]struct{ given, want string }{
		"none":               {`null`, `[` + own + `]`},
		"another":            {`[` + other + `]`, `[` + other + `,` + own + `]`},
		"the parent":         {`[` + own + `,` + other + `]`, `[` + other + `,` + own + `]`},
		"no controller":      {`[{"apiVersion":"example.com/v1","kind":"Thing","name":"thing","uid":"parent"}]`, `[` + own + `]`},
		"controller false":   {`[{"apiVersion":"example.com/v1","kind":"Thing","name":"thing","uid":"parent","controller":false}]`, `[` + own + `]`},
		"twice":              {`[` + own + `,` + own + `]`, `[` + own + `]`},
		"an incomplete one":  {`[{"uid":"parent"}]`, `[` + own + `]`},
		"an invalid one":     {`["x"]`, `["x",` + own + `]`}, // the API server refuses it
		"no blocked parents": {`[{"uid":"parent","blockOwnerDeletion":false}]`, `[` + strings.Replace(own, `n":true}`, `n":false}`, 1) + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specWith(t)
			created, err := spec.newChild(spec.parents[0], parentWith(""), parseTree(t, `{"metadata":{"name":"m","ownerReferences":`+test.given+`}}`))
			if err != nil {
				t.Fatal(err)
			}
			got := created["metadata"].(map[string]any)["ownerReferences"]
			if diff := cmp.Diff(parseTree(t, `{"o":`+test.want+`}`)["o"], got); diff != "" {
				t.Errorf("the owner references: %s", diff)
			}
		})
	}
}

func parseTree(t *testing.T, text string) (tree map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}
