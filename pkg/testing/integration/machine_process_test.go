// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// runMachines runs the Machine controller in the namespace until stop is called. The journal records its requests.
func runMachines(e *env, journal *faultproxy.Journal) (stop func()) {
	e.Helper()
	_, stop = runMachinesBehindProxy(e, journal)
	return stop
}

func runMachinesBehindProxy(e *env, journal *faultproxy.Journal) (proxy *faultproxy.Proxy, stop func()) {
	e.Helper()
	proxy, kubeconfig := startProxy(e, "machine", operatorAccount(e.T, e.cluster).Config, journal)
	stop = runManagerWith(e.T, func(options *manager.Options) {
		options.Kubeconfig, options.Namespace, options.Controllers = kubeconfig, e.namespace, []string{machine.ControllerName}
	})
	return proxy, stop
}

// neverHas sets a selector that no new Switch would match. The Machine reports that, and creates nothing.
func neverHas(spec *v1alpha1.MachineSpec) {
	spec.Selector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{"room": "hall"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "room", Operator: metav1.LabelSelectorOpDoesNotExist}},
	}
}

func TestMachineRequests(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	var first faultproxy.Journal
	stop := runMachines(e, &first)
	begin := time.Now()
	e.createMachine(newMachine("m", 10, quick))
	_, switches := e.awaitMachine("m", 10)
	e.awaitMachineEvent("m", "SwitchCreated", "Created: switch-")
	created := requestsFor(&first, e.namespace)
	// One more for each second that it takes.
	most := 2 + int(time.Since(begin).Seconds())
	if created["create switches"] != 10 || created["update machines/status"] > most || created["create events"] != 1 || len(created) != 3 {
		t.Errorf("requests for ten switches: got %v, want ten creates, %d status writes at most, and an event", created, most)
	}
	begin = time.Now()
	e.flipUp(switches[3].Name)
	e.awaitMachineEvent("m", "Flipped", "Moved switch "+switches[3].Name+" down")
	e.awaitMachine("m", 10)
	flipped := requestsFor(&first, e.namespace)
	for what, count := range created {
		flipped[what] -= count
	}
	t.Logf("requests of the creation: %v; of one flip: %v", created, flipped)
	// The statuses of Machine and Switch report that the Switch is up, the flip is reserved and done, and both report that it is down.
	most = 3 + int(time.Since(begin).Seconds())
	if flipped["patch switches"] != 1 || flipped["update switches/status"] != 2 || flipped["update machines/status"] > most || flipped["create events"] > 2 {
		t.Errorf("requests of one flip: got %v", flipped)
	}
	stop()

	var second faultproxy.Journal
	stop = runMachines(e, &second)
	// A new process syncs existing objects before new ones, and ends only after all syncs that it has begun.
	e.createMachine(newMachine(lastName, 1, neverHas))
	e.awaitMachineReason(lastName, v1alpha1.ReasonInvalidSelector)
	stop()
	for _, entry := range second.Entries() {
		if entry.IsWrite() && entry.Name != lastName {
			t.Errorf("second process: got %s, want no write", entry)
		}
	}
}

// There is no leader election here: both managers write. The Machine still keeps its interval.
func TestMachineTwoManagers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	flips := recordFlips(e, time.Second, time.Second)
	var journals [2]faultproxy.Journal
	for i := range journals {
		defer runMachines(e, &journals[i])()
	}
	e.createMachine(newMachine("m", 4, quick))
	_, switches := e.awaitMachine("m", 4)
	for range 2 {
		for _, sw := range switches {
			e.flipUp(sw.Name)
		}
		e.awaitMachine("m", 4)
	}
	if all := e.switches(); len(all) != 4 {
		t.Errorf("got %d switches, want 4", len(all))
	}
	if flips.flips() != 8 {
		t.Errorf("got %d flips, want 8", flips.flips())
	}
	for i := range journals {
		if writes := journals[i].Select(func(entry faultproxy.Entry) bool { return entry.IsWrite() }); len(writes) == 0 {
			t.Errorf("manager %d has written nothing: nothing is tested", i)
		}
	}
}

func TestMachineInvalid(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	for name, test := range map[string]struct {
		machine *v1alpha1.Machine
		refusal string // empty if it is accepted
	}{
		"longest name":          {newMachine(strings.Repeat("a", 63), 1), ""},
		"name of 64 characters": {newMachine(strings.Repeat("a", 64), 1), "metadata.name must be at most 63 characters: it becomes the value of a label"},
		"too many switches":     {newMachine("m", 101), "spec.switches in body should be less than or equal to 100"},
		"negative switches":     {newMachine("m", -1), "spec.switches in body should be greater than or equal to 1"},
		"position too long":     {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.SwitchPosition = strings.Repeat("u", 64) }), "may not be more than 63"},
		"empty selector":        {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.Selector = &metav1.LabelSelector{} }), "an empty selector would match every switch of the namespace"},
		"too many labels":       {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.Selector = &metav1.LabelSelector{MatchLabels: labelsOf(51)} }), "at most 50 labels"},
		"as many as allowed":    {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.Selector = selectorOf(20, 50) }), ""},
		"too many expressions":  {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.Selector = selectorOf(21, 1) }), "at most 20 expressions"},
		"too many values":       {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.Selector = selectorOf(2, 51) }), "at most 50 values in one expression"},
		"negative delay":        {newMachine("m", 1, func(s *v1alpha1.MachineSpec) { s.FlipDelaySeconds = -1 }), "spec.flipDelaySeconds in body should be greater than or equal to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			created, err := e.client.UselessV1alpha1().Machines(e.namespace).Create(t.Context(), test.machine, dryRun)
			switch {
			case test.refusal == "" && err != nil:
				t.Errorf("create: %v", err)
			case test.refusal == "" && (created.Spec.FlipDelaySeconds != 5 || created.Spec.FlipIntervalSeconds != 5):
				t.Errorf("defaults: got %+v, want delays of 5 s", created.Spec)
			case test.refusal != "" && (err == nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.refusal)):
				t.Errorf("create: got %v, want %q", err, test.refusal)
			}
		})
	}
	e.kubectl("apply", "-f", e.file(`{apiVersion: useless.container.training/v1alpha1, kind: Machine, metadata: {name: bare}}`))
	if got := e.machine("bare").Spec.Switches; got != 1 {
		t.Errorf("switches of a Machine without a spec: got %d, want 1", got)
	}
	e.createMachine(newMachine("selects", 1, selecting("room", "hall")))
	for name, patch := range map[string]string{
		"bare":    `{"spec":{"selector":{"matchLabels":{"room":"hall"}}}}`,
		"selects": `{"spec":{"selector":{"matchLabels":{"room":"attic"}}}}`,
	} {
		_, err := e.client.UselessV1alpha1().Machines(e.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), "selector is immutable") {
			t.Errorf("patch of the selector of %s: got %v, want that it is immutable", name, err)
		}
	}
	remove := []byte(`{"spec":{"selector":null}}`)
	if _, err := e.client.UselessV1alpha1().Machines(e.namespace).Patch(t.Context(), "selects", types.MergePatchType, remove, metav1.PatchOptions{}); err == nil {
		t.Error("patch that removes the selector: got no error, want one")
	}
	for _, kind := range []string{"machine", "switch"} {
		if explained := e.kubectl("explain", kind, "--recursive"); !strings.Contains(explained, "seenAt") {
			t.Errorf("kubectl explain %s --recursive lacks seenAt:\n%s", kind, explained)
		}
	}
	for _, field := range []string{
		"machine", "machine.spec", "machine.spec.selector", "machine.status", "machine.status.flip", "machine.status.conditions",
		"switch", "switch.spec", "switch.status",
	} {
		explained := e.kubectl("explain", field)
		if !strings.Contains(explained, "FIELDS:") || strings.Contains(explained, "<no description>") {
			t.Errorf("kubectl explain %s lacks text:\n%s", field, explained)
		}
	}
}

func labelsOf(count int) map[string]string {
	set := map[string]string{}
	for i := range count {
		set[fmt.Sprint("label-", i)] = ""
	}
	return set
}

// selectorOf returns a selector that matches everything without the label changed.
func selectorOf(expressions, values int) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for i := range expressions {
		expression := metav1.LabelSelectorRequirement{Key: "changed", Operator: metav1.LabelSelectorOpNotIn}
		for j := range values {
			expression.Values = append(expression.Values, fmt.Sprintf("value-%d-%d", i, j))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, expression)
	}
	return selector
}
