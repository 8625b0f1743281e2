// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	immortalcontainersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller/immortalcontainer"
)

var immortalContainers = immortalcontainersv1alpha1.Resource("immortalcontainers")

// leaseOf a process that runs these controllers.
func leaseOf(renewed time.Time, duration int32, namespace string, running ...string) *coordinationv1.Lease {
	descriptors, err := selectControllers(Descriptors(), running)
	if err != nil {
		panic(err)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Labels: leaseLabels(descriptors, namespace)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: ptr.To(duration)},
	}
}

func TestLeaseNamesItsControllers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		in    string
		runs  bool
	}{
		"it runs all":                               {lease: leaseOf(now, 15, "", "*"), runs: true},
		"it runs this one":                          {lease: leaseOf(now, 15, "", "immortalcontainer"), runs: true},
		"it runs others":                            {lease: leaseOf(now, 15, "", "*", "-immortalcontainer")},
		"it has been renewed a while ago":           {lease: leaseOf(now.Add(-40*time.Second), 15, "", "*"), runs: true},
		"it has expired":                            {lease: leaseOf(now.Add(-time.Minute), 15, "", "*")},
		"it is being handed over":                   {lease: leaseOf(now.Add(-10*time.Second), 1, "", "*"), runs: true},
		"it was given up, and no process has come":  {lease: leaseOf(now.Add(-40*time.Second), 1, "", "*")},
		"it works in the same namespace":            {lease: leaseOf(now, 15, "ns", "*"), in: "ns", runs: true},
		"it works in another namespace":             {lease: leaseOf(now, 15, "other", "*"), in: "ns"},
		"it works in one namespace, and we in all":  {lease: leaseOf(now, 15, "other", "*"), runs: true},
		"it works in all namespaces, and we in one": {lease: leaseOf(now, 15, "", "*"), in: "ns", runs: true},
		"it is that of another program":             {lease: &coordinationv1.Lease{Spec: leaseOf(now, 15, "", "*").Spec}},
		"it was never held":                         {lease: &coordinationv1.Lease{ObjectMeta: leaseOf(now, 15, "", "*").ObjectMeta}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runs(test.lease, immortalcontainer.ControllerName, test.in, now); got != test.runs {
				t.Errorf("runs: %t, want %t", got, test.runs)
			}
		})
	}
}

func TestLeaseLabels(t *testing.T) {
	labels := leaseLabels(Descriptors()[:1], strings.Repeat("n", 63))
	for key, value := range labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("%s=%s: %v", key, value, problems)
		}
	}
	for _, d := range Descriptors() {
		if labels[runsPrefix+d.Name] == "" {
			t.Errorf("%s is not among %v", d.Name, slices.Sorted(maps.Keys(labels)))
		}
	}
}

func TestOwnControllers(t *testing.T) {
	b := &builtIns{table: Descriptors(), running: []string{immortalcontainer.ControllerName}}
	for resource, want := range map[schema.GroupResource]struct {
		name string
		on   bool
	}{
		immortalContainers: {"immortalcontainer", true},
		{Group: "apps.anupam.com", Resource: "helloapps"}: {"helloapp", false},
		{Group: "apps", Resource: "deployments"}:          {},
	} {
		if name, on, known := b.servedBy(resource); name != want.name || on != want.on || !known {
			t.Errorf("%s is served by %q, on %t, known %t", resource, name, on, known)
		}
	}
}

// A controller that writes the status of a kind of ours is in the table with that kind, or a CompositeController for the kind conflicts with it.
func TestStatusWritersAreDeclared(t *testing.T) {
	for _, d := range Descriptors() {
		for _, required := range d.Requires {
			marker := "groups=" + required.Group + ",resources=" + required.Resource + "/status"
			writes := len(containing(t, "pkg/controller/*/doc.go", marker)) > 0
			if serves := slices.Contains(d.Serves, required.GroupResource()); writes != serves {
				t.Errorf("%s writes the status of %s: %t, and is in the table with it: %t", d.Name, required.GroupResource(), writes, serves)
			}
		}
	}
}
