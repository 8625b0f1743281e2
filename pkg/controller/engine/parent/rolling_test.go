// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/merge"
)

// rollingWorld is a world whose children roll: spec.size ConfigMaps with the data spec.template, which makes a revision.
type rollingWorld struct {
	*world
	records map[string]text
	// ready is the status that new children have, as JSON.
	ready map[string]any
	// status of the answer, as JSON.
	status string
	// suffix of the data of children, which makes no revision.
	suffix string
	// calls counts the answers of the hook.
	calls int
	merge merger
	// store changes a child as the API server does when it stores it, nil for not at all.
	store func(tree map[string]any)
}

func newRollingWorld(t *testing.T, method v1alpha1.ChildUpdateMethod, edits ...edit) *rollingWorld {
	edits = append([]edit{withMethod(method), func(s *v1alpha1.CompositeControllerSpec) {
		s.ParentResource.RevisionHistory = &v1alpha1.CompositeControllerRevisionHistory{FieldPaths: []string{"spec.template"}}
	}}, edits...)
	return &rollingWorld{world: newWorld(t, edits...), records: map[string]text{}, status: `{}`, merge: merge.Update}
}

// withReadyCheck has a child wait for the condition Ready.
func withReadyCheck(s *v1alpha1.CompositeControllerSpec) {
	s.ChildResources[0].UpdateStrategy.StatusChecks.Conditions = []v1alpha1.StatusConditionCheck{{Type: "Ready", Status: ptr("True")}}
}

// desire sets fields of the spec of the parent.
func (w *rollingWorld) desire(size int, template string) {
	tree, err := treeOf(w.parent)
	if err != nil {
		w.t.Fatal(err)
	}
	spec := tree["spec"].(map[string]any)
	spec["size"], spec["template"] = int64(size), template
	w.version++
	tree["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(w.version)
	w.parent = textOf(w.t, tree)
}

// hook answers about a parent.
func (w *rollingWorld) hook(parent object) string {
	w.calls++
	var p struct {
		Spec struct {
			Size     int
			Template *string
		}
	}
	if err := parent.Decode(&p); err != nil {
		w.t.Fatal(err)
	}
	data := "none"
	if p.Spec.Template != nil {
		data = *p.Spec.Template
	}
	var children []string
	for i := range p.Spec.Size {
		children = append(children, configMap(fmt.Sprintf("c-%d", i), data+w.suffix))
	}
	return fmt.Sprintf(`{"status":%s,"children":[%s]}`, w.status, strings.Join(children, ","))
}

// roll syncs the parent once, and returns what was done.
func (w *rollingWorld) roll() (did []string) {
	w.t.Helper()
	p := w.plan()
	p.history.recorded = true
	for _, s := range p.records {
		did = append(did, fmt.Sprintf("%s %s", s.verb, w.revisionOf(s)))
		if s.verb == verbDelete {
			delete(w.records, s.child.name)
		} else {
			w.records[s.child.name] = w.write(s.object)
		}
	}
	for _, s := range p.steps {
		did = append(did, s.String())
		switch s.verb {
		case verbDelete, verbRecreate:
			delete(w.children, s.child)
			p.history.recordDone(s, "")
		default:
			if _, found := s.object["status"]; !found && w.ready != nil {
				s.object["status"] = w.ready
			}
			written := w.write(s.object)
			if w.store != nil {
				tree := mustTree(w.t, written)
				w.store(tree)
				written = textOf(w.t, tree)
			}
			w.children[s.child] = written
			p.history.recordDone(s, written.GetResourceVersion())
			if s.desired != nil {
				remaining, err := remainingAfter(written, s.desired, merge.Update)
				if err != nil {
					w.t.Fatal(err)
				}
				if len(remaining) > 0 {
					p.history.recordRemaining(s, remaining)
				}
			}
		}
	}
	if p.status != nil {
		before := w.parent.GetResourceVersion()
		w.setStatus(p.status)
		p.history.recordStatusDone(p.status, before, w.parent)
	}
	w.history, w.last = p.history, p
	return did
}

func (w *rollingWorld) plan() plan {
	w.t.Helper()
	var records []object
	for _, name := range slices.Sorted(maps.Keys(w.records)) {
		records = append(records, w.records[name])
	}
	of := w.spec.parents[0]
	revisions, strays, err := w.spec.revisionsOf(of, w.parent, records)
	if err != nil {
		w.t.Fatal(err)
	}
	o := observed{parent: w.parent, of: of, children: w.children, history: w.history, called: phaseSync, strays: strays, now: w.now}
	if o.selector, err = w.spec.selectorOf(w.parent); err != nil {
		w.t.Fatal(err)
	}
	for i, revision := range revisions {
		parent := object(w.parent)
		if i > 0 {
			if parent, err = w.spec.materialise(w.parent, revision); err != nil {
				w.t.Fatal(err)
			}
		}
		o.rolling = append(o.rolling, revisionAnswer{revision, answerOf(w.t, w.spec, w.parent, w.hook(textOf(w.t, mustTree(w.t, parent))))})
	}
	o.answer = o.rolling[0].answer
	p, err := w.spec.decide(o, w.merge)
	if err = errors.Join(append(p.problems, err)...); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func mustTree(t *testing.T, o object) map[string]any {
	t.Helper()
	tree, err := treeOf(materialised{nil, o.JSON()})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// revisionOf returns the template that a step records, and the children that have it.
func (w *rollingWorld) revisionOf(s childStep) string {
	tree := s.object
	if s.verb == verbDelete {
		tree = mustTree(w.t, w.records[s.child.name])
	}
	var record v1alpha1.ControllerRevision
	if err := textOf(w.t, tree).Decode(&record); err != nil {
		w.t.Fatal(err)
	}
	var patch struct{ Spec struct{ Template string } }
	if err := text(record.ParentPatch.Raw).Decode(&patch); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, children := range record.Children {
		names = append(names, children.Names...)
	}
	return fmt.Sprintf("%s: %s", patch.Spec.Template, strings.Join(names, " "))
}

// wantRoll fails the test unless a sync does what is wanted and the condition Updated has a message.
func (w *rollingWorld) wantRoll(message string, did ...string) {
	w.t.Helper()
	if diff := cmp.Diff(did, w.roll()); diff != "" {
		w.t.Errorf("it did something else (-want +got):\n%s", diff)
	}
	w.wantMessage(message)
}

func (w *rollingWorld) wantMessage(message string) {
	w.t.Helper()
	var parent struct {
		Status struct {
			Conditions []struct{ Type, Message string }
		}
	}
	if err := w.parent.Decode(&parent); err != nil {
		w.t.Fatal(err)
	}
	for _, condition := range parent.Status.Conditions {
		if condition.Type == "Updated" {
			if !strings.Contains(condition.Message, message) {
				w.t.Errorf("the message is %q, want %q", condition.Message, message)
			}
			return
		}
	}
	w.t.Errorf("there is no condition Updated in %+v", parent.Status)
}

func TestRollOneByOne(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(3, "one")
	w.wantRoll("3 of 3", "create one: c-0 c-1 c-2", "create ConfigMap ns/c-0", "create ConfigMap ns/c-1", "create ConfigMap ns/c-2")
	w.wantRoll("3 of 3 children have the latest revision; latest ControllerRevision: things.example.com-")
	w.desire(3, "two")
	w.wantRoll("1 of 3 children have the latest revision; updating ConfigMap c-0", "create two: c-0", "update one: c-1 c-2", "update ConfigMap ns/c-0")
	w.wantRoll("2 of 3", "update two: c-0 c-1", "update one: c-2", "update ConfigMap ns/c-1")
	w.wantRoll("3 of 3", "update two: c-0 c-1 c-2", "delete one: c-2", "update ConfigMap ns/c-2")
	w.wantRoll("3 of 3 children have the latest revision; latest")
	before := w.calls
	w.wantRoll("3 of 3")
	if w.calls != before+1 {
		t.Errorf("the hook was called %d times for one revision", w.calls-before)
	}
}

func TestRollByRecreation(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingRecreate)
	w.desire(2, "one")
	w.roll()
	w.desire(2, "two")
	w.wantRoll("updating ConfigMap c-0", "create two: c-0", "update one: c-1", "recreate ConfigMap ns/c-0")
	w.wantRoll("1 of 2 children have the latest revision; waiting: ConfigMap c-0 is not there yet", "create ConfigMap ns/c-0")
	w.wantRoll("updating ConfigMap c-1", "update two: c-0 c-1", "delete one: c-1", "recreate ConfigMap ns/c-1")
	w.wantRoll("2 of 2", "create ConfigMap ns/c-1")
	w.wantRoll("2 of 2")
}

func TestRollWaitsForReadyChild(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingRecreate, withReadyCheck)
	ready := func(status string) func(map[string]any) {
		return func(tree map[string]any) {
			tree["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}}
		}
	}
	w.desire(2, "one")
	w.roll()
	w.edit("c-0", ready("True"))
	w.edit("c-1", ready("True"))
	w.desire(2, "two")
	w.roll()
	w.roll()
	w.wantRoll("waiting: ConfigMap c-0 is not ready: it has no condition Ready")
	w.edit("c-0", ready("False"))
	w.wantRoll(`waiting: ConfigMap c-0 is not ready: the status of its condition Ready is "False", and must be "True"`)
	w.edit("c-0", ready("True"))
	w.wantRoll("2 of 2 children have the latest revision; updating ConfigMap c-1",
		"update two: c-0 c-1", "delete one: c-1", "recreate ConfigMap ns/c-1")
}

// TestRollWaitsForObservation: a controller that has not observed an update in place cannot have a status about it.
func TestRollWaitsForObservation(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	observed := func(generation int64) func(map[string]any) {
		return func(tree map[string]any) { tree["status"] = map[string]any{"observedGeneration": generation} }
	}
	w.generations = true
	w.desire(2, "one")
	w.roll()
	w.desire(2, "two")
	w.roll()
	w.edit("c-0", func(tree map[string]any) {
		tree["metadata"].(map[string]any)["generation"] = int64(2)
		observed(1)(tree)
	})
	w.wantRoll("waiting: ConfigMap c-0 is not ready: its controller has not observed the update yet")
	w.edit("c-0", observed(2))
	w.wantRoll("updating ConfigMap c-1", "update two: c-0 c-1", "delete one: c-1", "update ConfigMap ns/c-1")
}

func TestEditTurnsRoll(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(3, "one")
	w.roll()
	w.desire(3, "two")
	w.roll()
	w.desire(3, "three")
	w.wantRoll("updating ConfigMap c-0", "create three: c-0", "delete two: c-0", "update ConfigMap ns/c-0")
	w.desire(3, "one")
	w.wantRoll("updating ConfigMap c-0", "update one: c-0 c-1 c-2", "delete three: c-0", "update ConfigMap ns/c-0")
	w.wantRoll("3 of 3")
}

func TestScaleDuringRoll(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(4, "one")
	w.roll()
	w.desire(4, "two")
	w.roll()
	w.roll()
	w.desire(1, "two")
	w.wantRoll("1 of 1", "update two: c-0", "delete one: c-2 c-3", "delete ConfigMap ns/c-1", "delete ConfigMap ns/c-2", "delete ConfigMap ns/c-3")
	w.desire(3, "two")
	w.wantRoll("3 of 3", "update two: c-0 c-1 c-2", "create ConfigMap ns/c-1", "create ConfigMap ns/c-2")
	w.wantRoll("3 of 3")
}

// TestRollDoesNotWaitForWhatIsStoredOtherwise: the API server stores a value in another form than the hook desires it in. No update changes that, so the next
// child is moved. An edit by another client is repaired first.
func TestRollDoesNotWaitForWhatIsStoredOtherwise(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.store = func(tree map[string]any) {
		data := tree["data"].(map[string]any)
		data["k"] = strings.ToUpper(data["k"].(string))
	}
	w.desire(3, "one")
	w.wantRoll("3 of 3", "create one: c-0 c-1 c-2", "create ConfigMap ns/c-0", "create ConfigMap ns/c-1", "create ConfigMap ns/c-2")
	w.wantRoll("3 of 3")
	w.desire(3, "two")
	w.wantRoll("1 of 3 children have the latest revision; updating ConfigMap c-0", "create two: c-0", "update one: c-1 c-2", "update ConfigMap ns/c-0")
	w.wantRoll("2 of 3", "update two: c-0 c-1", "update one: c-2", "update ConfigMap ns/c-1")
	w.edit("c-0", setData("mine"))
	w.wantRoll("2 of 3 children have the latest revision; waiting: ConfigMap c-0 is not updated yet", "update ConfigMap ns/c-0")
	w.wantRoll("3 of 3", "update two: c-0 c-1 c-2", "delete one: c-2", "update ConfigMap ns/c-2")
	w.wantRoll("3 of 3 children have the latest revision; latest")

	w.history = history{} // another process updates each child once, to see that this changes nothing
	w.wantRoll("3 of 3", "update ConfigMap ns/c-0", "update ConfigMap ns/c-1", "update ConfigMap ns/c-2")
	w.wantRoll("3 of 3")
}

// TestOutdatedRecord: children were updated while none rolled, so that a record claims children that have another revision. They are not updated back to it.
func TestOutdatedRecord(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(3, "one")
	w.roll()
	w.desire(3, "two")
	w.wantRoll("1 of 3", "create two: c-0", "update one: c-1 c-2", "update ConfigMap ns/c-0")
	for _, name := range []string{"c-1", "c-2"} {
		w.children[configMaps.key("ns", name)] = text(strings.ReplaceAll(w.children[configMaps.key("ns", "c-0")].JSON(), "c-0", name))
	}
	w.desire(3, "three")
	did := w.roll()
	slices.Sort(did)
	want := []string{"create three: c-0", "delete one: c-1 c-2", "update ConfigMap ns/c-0", "update two: c-1 c-2"}
	if diff := cmp.Diff(want, did); diff != "" {
		t.Errorf("it did something else (-want +got):\n%s", diff)
	}
}

// TestRecordOfEarlierProcess: as before, but what the children have now was never recorded. The next children wait for their turn. An edit by another client
// is repaired by the record that claims its child, whichever process has written that.
func TestRecordOfEarlierProcess(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(3, "two")
	w.roll()
	updated := maps.Clone(w.children)
	w.desire(3, "one")
	for range 3 {
		w.roll()
	}
	before := maps.Clone(w.children)
	w.edit("c-1", setData("mine"))
	w.history = history{}
	w.desire(3, "three")
	w.wantRoll("updating ConfigMap c-1", "create three: c-1", "update one: c-0 c-2", "update ConfigMap ns/c-1")

	w.children, w.history = before, history{}
	w.desire(3, "one")
	w.roll()
	w.children, w.history = updated, history{}
	w.desire(3, "three")
	w.wantRoll("1 of 3 children have the latest revision; updating ConfigMap c-0", "create three: c-0", "delete one: c-0 c-1 c-2", "update ConfigMap ns/c-0")
	w.wantRoll("2 of 3", "update three: c-0 c-1", "update ConfigMap ns/c-1")
	w.wantRoll("3 of 3", "update three: c-0 c-1 c-2", "update ConfigMap ns/c-2")
	w.wantRoll("3 of 3")
}

// TestRecordOfThisProcess: fields that make no revision reach the children of an older one immediately.
func TestRecordOfThisProcess(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace, withReadyCheck)
	w.desire(3, "one")
	w.roll()
	w.edit("c-0", func(tree map[string]any) { delete(tree, "status") })
	w.desire(3, "two")
	w.wantRoll("updating ConfigMap c-0", "create two: c-0", "update one: c-1 c-2", "update ConfigMap ns/c-0")
	w.suffix = "!"
	w.wantRoll("waiting: ConfigMap c-0 is not updated yet", "update ConfigMap ns/c-0", "update ConfigMap ns/c-1", "update ConfigMap ns/c-2")
}

// TestDeletedRevision: children without a revision wait for their turn, too.
func TestDeletedRevision(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(3, "one")
	w.roll()
	clear(w.records)
	w.desire(3, "two")
	w.wantRoll("1 of 3", "create two: c-0", "update ConfigMap ns/c-0")
	clear(w.records)
	w.wantRoll("2 of 3", "create two: c-0 c-1", "update ConfigMap ns/c-1")
	w.wantRoll("3 of 3", "update two: c-0 c-1 c-2", "update ConfigMap ns/c-2")
	w.wantRoll("3 of 3")
}

func TestDisturbedChildRollsFirst(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingRecreate)
	w.desire(3, "one")
	w.roll()
	delete(w.children, configMaps.key("ns", "c-2"))
	w.desire(3, "two")
	w.wantRoll("updating ConfigMap c-2", "create two: c-2", "update one: c-0 c-1", "create ConfigMap ns/c-2")
	w.wantRoll("updating ConfigMap c-0", "update two: c-0 c-2", "update one: c-1", "recreate ConfigMap ns/c-0")
}

// TestForgedRevisionIsDeleted: the name of a record is a hash of its patch, so that what another client writes into one is not rolled out.
func TestForgedRevisionIsDeleted(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(2, "one")
	w.roll()
	for name, record := range w.records {
		w.records[name] = text(strings.Replace(string(record), `"template":"one"`, `"template":"forged"`, 1))
	}
	w.wantRoll("2 of 2", "update one: c-0 c-1")
	w.wantRoll("2 of 2")
	for name, record := range w.records {
		w.records[name] = text(strings.Replace(string(record), `"template":"one"`, `"template":"forged"`, 1))
	}
	w.desire(2, "two")
	w.wantRoll("1 of 2", "create two: c-0", "delete forged: c-0 c-1", "update ConfigMap ns/c-0")
}

// TestFieldThatParentLacks: an older revision without the field has to be without it again.
func TestFieldThatParentLacks(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(2, "one")
	w.parent = text(strings.Replace(string(w.parent), `,"template":"one"`, "", 1))
	w.wantRoll("2 of 2", "create : c-0 c-1", "create ConfigMap ns/c-0", "create ConfigMap ns/c-1")
	w.desire(2, "two")
	w.roll()
	if kept := w.children[configMaps.key("ns", "c-1")]; !strings.Contains(kept.JSON(), `"k":"none"`) {
		t.Errorf("the child of the older revision is %s", kept.JSON())
	}
	w.wantRoll("2 of 2", "update two: c-0 c-1", "delete : c-1", "update ConfigMap ns/c-1")
}

// TestSelectorOfOlderRevision: a child that the parent does not select any more has no revision, and is not created with the labels that it had.
func TestSelectorOfOlderRevision(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(2, "one")
	w.roll()
	w.desire(2, "two")
	w.parent = text(strings.Replace(string(w.parent), `"app":"a"`, `"app":"b"`, 1))
	revisions, _, err := w.spec.revisionsOf(w.spec.parents[0], w.parent, []object{w.records[slices.Collect(maps.Keys(w.records))[0]]})
	if err != nil {
		t.Fatal(err)
	}
	o := observed{parent: w.parent, of: w.spec.parents[0], children: map[childKey]object{}, called: phaseSync, now: w.now}
	if o.selector, err = w.spec.selectorOf(w.parent); err != nil {
		t.Fatal(err)
	}
	latest := `{"children":[` + strings.ReplaceAll(configMap("c-0", "two"), `"app":"a"`, `"app":"b"`) + `]}`
	o.rolling = []revisionAnswer{
		{revisions[0], answerOf(t, w.spec, w.parent, latest)}, {revisions[1], answerOf(t, w.spec, w.parent, wants(configMap("c-0", "one")))},
	}
	o.answer = o.rolling[0].answer
	p, err := w.spec.decide(o, merge.Update)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.steps) != 1 || p.steps[0].object["data"].(map[string]any)["k"] != "two" {
		t.Errorf("the steps are %v", p.steps)
	}
}

func TestUpdatedConditionOfHook(t *testing.T) {
	for name, status := range map[string]string{
		"none":           `null`,
		"an own one":     `{"conditions":[{"type":"Updated","status":"True","message":"mine"},{"type":"Other","status":"True"}]}`,
		"no list at all": `{"conditions":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
			w.status = status
			w.desire(1, "one")
			w.roll()
			w.wantRoll("1 of 1 children have the latest revision")
			w.wantRoll("1 of 1")
		})
	}
}

// TestRollIsNoUnsettledHook: an update of many children is no answer that never settles.
func TestRollIsNoUnsettledHook(t *testing.T) {
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(60, "one")
	w.roll()
	w.desire(60, "two")
	for range 60 {
		if did := w.roll(); len(did) != 3 {
			t.Fatalf("it did %q", did)
		}
		if w.last.problem != nil || w.last.delayed {
			t.Fatalf("the plan is delayed for %+v", w.last.problem)
		}
		w.now = w.now.Add(10 * time.Millisecond)
	}
	w.wantRoll("60 of 60")
}

// TestRollMergesOncePerChild: the work for a rolling update grows with the number of children, and not with its square.
func TestRollMergesOncePerChild(t *testing.T) {
	const children = 50
	w := newRollingWorld(t, v1alpha1.ChildUpdateRollingInPlace)
	w.desire(children, "one")
	w.roll()
	w.desire(children, "two")
	merges := 0
	w.merge = func(observed, desired map[string]any) (merge.Verdict, error) {
		merges++
		return merge.Update(observed, desired)
	}
	for range children {
		w.roll()
	}
	w.wantRoll(fmt.Sprintf("%d of %d", children, children))
	if most := 4 * children; merges > most {
		t.Errorf("%d children were merged %d times, want at most %d", children, merges, most)
	}
}
