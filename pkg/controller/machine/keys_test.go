// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// everything is a selector that matches every Switch of the tests.
var everything = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "none", Operator: metav1.LabelSelectorOpDoesNotExist}}}

// inHall selects the switches of one room.
var inHall = metav1.LabelSelector{MatchLabels: map[string]string{"room": "hall"}}

// nothing is a selector that matches no Switch of the tests, and has only expressions.
var nothing = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "none", Operator: metav1.LabelSelectorOpExists}}}

func controlledBy(machine *v1alpha1.Machine) switchOption {
	return func(sw *v1alpha1.Switch) {
		sw.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, machineKind)}
	}
}

func withLabels(set map[string]string) switchOption {
	return func(sw *v1alpha1.Switch) { sw.Labels = set }
}

// queued returns the names of the Machines that are synced if these keys are queued, sorted.
func (c *Controller) queued(t *testing.T, keys []cache.ObjectName) []string {
	t.Helper()
	names := sets.New[string]()
	for _, key := range keys {
		if !isNamespaceKey(key) {
			names.Insert(key.Name)
			continue
		}
		concerned, err := c.concerned(key.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range concerned {
			names.Insert(key.Name)
		}
	}
	return sets.List(names)
}

// Machine other matches every Switch, and m controls some. A change of one syncs other only if it may change what other does or reports.
func TestKeysOfASwitch(t *testing.T) {
	m, other := newMachine(2), newMachine(1, named("other"), withSelector(everything))
	blue, red := withLabels(map[string]string{"color": "blue"}), withLabels(map[string]string{"color": "red"})
	deleted := func(sw *v1alpha1.Switch) { sw.DeletionTimestamp = new(metav1.NewTime(noon)) }
	sw := func(options ...switchOption) *v1alpha1.Switch {
		return switchOf("sw", append([]switchOption{controlledBy(m), blue}, options...)...)
	}
	byGone := controlledBy(newMachine(1, func(machine *v1alpha1.Machine) { machine.UID = "uid-gone" }))
	many := make([]*v1alpha1.Machine, maxMatched) // with them, the sync of the namespace matches
	for i := range many {
		many[i] = newMachine(1, named(fmt.Sprint("none-", i)), withSelector(nothing))
	}
	for name, test := range map[string]struct {
		// present are switches with which the change happens.
		present       []*v1alpha1.Switch
		before, after *v1alpha1.Switch
		want          []string
	}{
		"the first with these labels comes":               {nil, nil, sw(), []string{"m", "other"}},
		"a second comes":                                  {[]*v1alpha1.Switch{switchOf("a", controlledBy(m), blue)}, nil, sw(), []string{"m"}},
		"the first with other labels comes":               {[]*v1alpha1.Switch{switchOf("a", controlledBy(m), red)}, nil, sw(), []string{"m", "other"}},
		"one of two goes":                                 {[]*v1alpha1.Switch{switchOf("a", controlledBy(m), blue)}, sw(), nil, []string{"m"}},
		"the last goes":                                   {nil, sw(), nil, []string{"m", "other"}},
		"it is flipped":                                   {nil, sw(), sw(up), []string{"m"}},
		"it is stamped":                                   {nil, sw(up), sw(upSince(1)), []string{"m"}},
		"its deletion begins":                             {nil, sw(), sw(deleted), []string{"m"}},
		"it gets other labels":                            {nil, sw(), sw(red), []string{"m", "other"}},
		"it gets the labels of another":                   {[]*v1alpha1.Switch{switchOf("a", controlledBy(m), red), switchOf("b", controlledBy(m), blue)}, sw(), sw(red), []string{"m"}},
		"it is released":                                  {nil, sw(), sw(orphaned), []string{"m", "other"}},
		"it is released, and m has more":                  {[]*v1alpha1.Switch{switchOf("a", controlledBy(m), blue)}, sw(), sw(orphaned), []string{"m", "other"}},
		"it is adopted":                                   {nil, sw(orphaned), sw(), []string{"m", "other"}},
		"another takes it":                                {nil, sw(), sw(controlledBy(other)), []string{"m", "other"}},
		"an orphan comes":                                 {nil, nil, sw(orphaned), []string{"other"}},
		"a second orphan comes":                           {[]*v1alpha1.Switch{switchOf("a", orphaned, blue)}, nil, sw(orphaned), []string{"other"}},
		"an orphan gets other labels":                     {nil, sw(orphaned), sw(orphaned, red), []string{"other"}},
		"an orphan is flipped":                            {nil, sw(orphaned), sw(orphaned, up), nil},
		"one of another kind comes":                       {nil, nil, sw(ownedByStranger), []string{"other"}},
		"one of another kind goes":                        {nil, sw(ownedByStranger), nil, []string{"other"}},
		"one of a Machine that is gone is flipped":        {nil, sw(byGone), sw(byGone, up), nil},
		"it is deleted and created while no watch saw it": {nil, sw(), sw(orphaned, func(sw *v1alpha1.Switch) { sw.UID = "uid-new" }), []string{"m", "other"}},
	} {
		for _, machines := range [][]*v1alpha1.Machine{{m, other}, append([]*v1alpha1.Machine{m, other}, many...)} {
			c := newControllerWithCaches(nil, nil)
			for _, machine := range machines {
				c.observe(t, machine, false)
			}
			for _, present := range test.present {
				c.switchChanged(t.Context(), nil, present)
			}
			if test.before != nil {
				c.switchChanged(t.Context(), nil, test.before)
			}
			c.labelChanges.take(metav1.NamespaceDefault)
			got := c.queued(t, c.switchChanged(t.Context(), test.before, test.after))
			if !slices.Equal(got, test.want) {
				t.Errorf("%s, with %d Machines: got %q, want %q", name, len(machines), got, test.want)
			}
		}
	}
}

// Switches may be seen before their Machine, because two watches are not ordered. What others report of them depends on it.
func TestKeysOfAMachine(t *testing.T) {
	m, other := newMachine(2), newMachine(1, named("other"), withSelector(everything))
	again := newMachine(2, func(machine *v1alpha1.Machine) { machine.UID = "uid-again" })
	c := newControllerWithCaches(nil, nil)
	c.observe(t, other, false)
	for i := range 3 {
		c.switchChanged(t.Context(), nil, switchOf(fmt.Sprint("sw-", i)))
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.Machine
		want          []string
	}{
		"it comes after its switches":           {nil, m, []string{"m", "other"}},
		"it changes":                            {m, newMachine(3), []string{"m"}},
		"it goes before its switches":           {m, nil, []string{"m", "other"}},
		"one without switches comes":            {nil, again, []string{"m"}},
		"it is created again, without switches": {m, again, []string{"m", "other"}},
	} {
		c.labelChanges.take(metav1.NamespaceDefault)
		got := c.queued(t, c.machineChanged(t.Context(), test.before, test.after))
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// However switches come, change and go: the sets are those of the switches that are there.
func TestSwitchSetsAreThoseOfTheSwitches(t *testing.T) {
	owners := []*v1alpha1.Machine{newMachine(1), newMachine(1, named("n"))}
	c := newControllerWithCaches(nil, nil)
	random := rand.New(rand.NewPCG(1, 0))
	switches := map[string]*v1alpha1.Switch{}
	for range 5000 {
		name := fmt.Sprint("sw-", random.IntN(20))
		before, after := switches[name], (*v1alpha1.Switch)(nil)
		if random.IntN(4) > 0 {
			after = switchOf(name, withLabels(map[string]string{"a": fmt.Sprint(random.IntN(2)), "b": fmt.Sprint(random.IntN(2))}), orphaned,
				func(sw *v1alpha1.Switch) { sw.UID = types.UID(fmt.Sprint(random.IntN(2))) })
			if n := random.IntN(3); n < 2 {
				controlledBy(owners[n])(after)
			}
		}
		if before != nil || after != nil {
			c.switchChanged(t.Context(), before, after)
		}
		switches[name] = after
		if after == nil {
			delete(switches, name)
		}
		want := map[string]int{}
		for _, sw := range switches {
			if set := setOf(sw); set != nil {
				want[set.key]++
			}
		}
		got := map[string]int{}
		for _, set := range c.switchSets.indexer.List() {
			got[set.(*switchSet).key] = set.(*switchSet).size
		}
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestOldestMachinesAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		for i := range 12 {
			a.apply(newMachine(1, named(fmt.Sprintf("m-%d", 20-i)), withSelector(everything)))
			time.Sleep(time.Minute)
		}
		a.operate()
		a.took()
		for name, want := range map[string]string{
			"m-19": "The selector also matches switches of Machine m-20",
			"m-10": "The selector also matches switches of Machine m-20, m-19, m-18, m-17, m-16, m-15, m-14, m-13, m-12, m-11",
			"m-9":  "The selector also matches switches of Machine m-20, m-19, m-18, m-17, m-16, m-15, m-14, m-13, m-12, m-11 and of others",
		} {
			if got := a.machine(name).Status.Conditions[0].Message; got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
}

// A handler of events does not match thousands of labels, and a sync of the namespace finds all Machines nevertheless.
func TestManyChangesOfLabels(t *testing.T) {
	for _, count := range []int{10, maxLabelChanges, maxLabelChanges + 1, 5 * maxLabelChanges} {
		c := newControllerWithCaches(nil, nil)
		all, hall := newMachine(1, named("all"), withSelector(everything)), newMachine(1, named("hall"), withSelector(inHall))
		c.observe(t, all, false)
		c.observe(t, hall, false)
		for i := range maxMatched {
			c.observe(t, newMachine(1, named(fmt.Sprint("none-", i)), withSelector(nothing)), false)
		}
		var got []cache.ObjectName
		for i := range count {
			got = append(got, c.switchChanged(t.Context(), nil, switchOf(fmt.Sprint("sw-", i), orphaned, withLabels(map[string]string{"n": fmt.Sprint(i)})))...)
		}
		if got = slices.Compact(got); !slices.Equal(got, []cache.ObjectName{namespaceKey("default")}) {
			t.Errorf("%d changes: got the keys %v, want that of the namespace", count, got)
		}
		if remembered := len(c.labelChanges.byNamespace["default"].labels); remembered > maxLabelChanges {
			t.Errorf("%d changes: remembered %d labels, want at most %d", count, remembered, maxLabelChanges)
		}
		want := []string{"all"}
		if count > maxLabelChanges {
			want = append(want, "hall")
			for i := range maxMatched {
				want = append(want, fmt.Sprint("none-", i))
			}
		}
		if got := c.queued(t, got); !slices.Equal(got, want) {
			t.Errorf("%d changes: got %q, want %q", count, got, want)
		}
		if len(c.labelChanges.byNamespace) != 0 {
			t.Errorf("%d changes: got %v left, want none", count, c.labelChanges.byNamespace)
		}
	}
}

// A Switch with more labels than are indexed is found by Machines with any selector, and costs no index of its labels.
func TestSwitchWithManyLabels(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		set := map[string]string{"room": "hall"}
		for i := range 1000 {
			set[fmt.Sprint("label-", i)] = ""
		}
		if got := len(labelBuckets("default", set)); got != 2 {
			t.Errorf("buckets: got %d, want 2", got)
		}
		a.started(newMachine(2, withSelector(inHall)))
		a.make(switchOf("sw", orphaned, withLabels(set), created(-3600)))
		a.wants("when it comes", "get machines m", "adopt sw", "delete sw by UID",
			`event Normal Adopted "Adopted: sw"`, `event Normal SwitchDeleted "Deleted: sw"`)
		a.apply(newMachine(1, named("younger"), withSelector(inHall)))
		a.took()
		a.label("switch-pdxzk", set)
		a.label("switch-b566m", map[string]string{"room": "attic"})
		synctest.Wait()
		want := "The selector also matches switches of Machine m"
		if got := a.machine("younger").Status.Conditions[0].Message; got != want {
			t.Errorf("a younger Machine: got %q, want %q", got, want)
		}
	})
}

// What an author may create in any number is remembered for the first hundred only.
func TestFirstForeignSwitchesAreReported(t *testing.T) {
	c := newControllerWithCaches(nil, nil)
	m := newMachine(1)
	c.observe(t, m, false)
	for i := range 500 {
		c.observe(t, switchOf(fmt.Sprintf("sw-%03d", i), ownedByStranger), false)
	}
	for _, want := range []int{maxReported, 0} {
		o, err := c.gather(cache.MetaObjectToName(m))
		if err != nil {
			t.Fatal(err)
		}
		if len(o.foreign) != want || want > 0 && o.foreign[0] != "sw-000 (of House h)" {
			t.Errorf("reported: got %d, the first %q; want %d", len(o.foreign), slices.Concat(o.foreign, []string{""})[0], want)
		}
	}
	if got := len(c.memory.reported[cache.MetaObjectToName(m)]); got != maxReported {
		t.Errorf("remembered: got %d, want %d", got, maxReported)
	}
	// One more that is the first by name takes no place, and frees none when it goes.
	for _, isGone := range []bool{false, true} {
		c.observe(t, switchOf("aa", ownedByStranger), isGone)
		if o, err := c.gather(cache.MetaObjectToName(m)); err != nil || len(o.foreign) != 0 {
			t.Errorf("reported: got %q, %v, want none", o.foreign, err)
		}
	}
}

func TestRecreatedSwitchIsNotBeingDeleted(t *testing.T) {
	c := newControllerWithCaches(nil, nil)
	before, after := switchOf("sw"), switchOf("sw", func(sw *v1alpha1.Switch) { sw.UID = "uid-new" })
	c.memory.startDeleting(cache.NewObjectName("default", "m"), before.UID)
	c.switchChanged(t.Context(), before, after)
	if len(c.memory.deleting) != 0 || len(c.memory.deletingOf) != 0 {
		t.Errorf("got %v, %v, want none", c.memory.deleting, c.memory.deletingOf)
	}
}

// A thousand switches with the same labels are one change.
func TestEqualChangesOfLabels(t *testing.T) {
	var l labelChanges
	for range 2 * maxLabelChanges {
		l.add("default", nil, []labels.Set{{"room": "hall"}})
	}
	if got := l.take("default"); got.isTruncated || len(got.labels) != 1 {
		t.Errorf("got %+v, want one change", got)
	}
}

// An owner reference to another kind with the UID of a Machine does not make the Machine the controller.
func TestControllerOfAnotherKindWithTheUID(t *testing.T) {
	c := newControllerWithCaches(nil, nil)
	m := newMachine(1)
	c.observe(t, m, false)
	c.observe(t, switchOf("sw", func(sw *v1alpha1.Switch) { sw.OwnerReferences[0].Kind = "House" }), false)
	o, err := c.gather(cache.MetaObjectToName(m))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.owned)+len(o.orphans)+len(o.strays) != 0 {
		t.Errorf("got %v owned, %v orphans, %v strays, want none", o.owned, o.orphans, o.strays)
	}
}
