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
	for name, test := range map[string]struct {
		namespace string
		running   []string
		in        string
		want      bool
	}{
		"it runs all":                               {running: []string{"*"}, want: true},
		"it runs this one":                          {running: []string{"immortalcontainer"}, want: true},
		"it runs others":                            {running: []string{"*", "-immortalcontainer"}},
		"it works in the same namespace":            {namespace: "ns", running: []string{"*"}, in: "ns", want: true},
		"it works in another namespace":             {namespace: "other", running: []string{"*"}, in: "ns"},
		"it works in one namespace, and we in all":  {namespace: "other", running: []string{"*"}, want: true},
		"it works in all namespaces, and we in one": {running: []string{"*"}, in: "ns", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			lease := leaseOf(time.Now(), 15, test.namespace, test.running...)
			if got := isOf(lease, immortalcontainer.ControllerName, test.in); got != test.want {
				t.Errorf("isOf: %t, want %t", got, test.want)
			}
		})
	}
	if isOf(&coordinationv1.Lease{}, immortalcontainer.ControllerName, "") {
		t.Error("a Lease of another program is one of ours")
	}
}

// TestLeaseIsHeld: a Lease is held for its duration and 30 seconds more after a renewal, by the clock of this process, however wrong that of its holder is.
func TestLeaseIsHeld(t *testing.T) {
	const second, minute, hour = time.Second, time.Minute, time.Hour
	type look struct {
		after       time.Duration // since the start
		renewed     time.Duration // the last renewal, by the clock of the holder, since the start by ours
		held, known bool
	}
	for name, looks := range map[string][]look{
		"it is renewed":                   {{0, 0, true, true}, {20 * second, 20 * second, true, true}},
		"it is not renewed any more":      {{0, 0, true, true}, {44 * second, 0, true, true}, {45 * second, 0, false, true}},
		"it has been renewed a while ago": {{0, -40 * second, true, true}},
		"it has expired":                  {{0, -minute, false, false}, {14 * second, -minute, false, false}, {15 * second, -minute, false, true}},
		"the holder's clock is late":      {{0, -hour, false, false}, {2 * second, 2*second - hour, true, true}, {minute, minute - hour, true, true}},
		"a late one is not renewed":       {{0, -hour, false, false}, {2 * second, 2*second - hour, true, true}, {47 * second, 2*second - hour, false, true}},
		"the holder's clock is early":     {{0, hour, true, true}, {minute, minute + hour, true, true}},
		"an early one is not renewed":     {{0, hour, true, true}, {44 * second, hour, true, true}, {45 * second, hour, false, true}},
		"the holder's clock was set back": {{0, 0, true, true}, {20 * second, -hour, true, true}, {64 * second, -hour, true, true}},
		"it is renewed after it expired":  {{0, 0, true, true}, {hour, 0, false, true}, {hour, hour, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var sight sighting
			for _, at := range looks {
				lease, now := leaseOf(start.Add(at.renewed), 15, "", "*"), start.Add(at.after)
				sight = sight.see(*lease.Spec.RenewTime, now)
				if held, known := isHeld(lease, sight, now); held != at.held || known != at.known {
					t.Errorf("after %s: held %t, known %t; want %t, %t", at.after, held, known, at.held, at.known)
				}
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
