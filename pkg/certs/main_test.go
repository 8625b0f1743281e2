// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

func testContext(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

const day = 24 * time.Hour

var (
	epoch   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	service = types.NamespacedName{Namespace: "default", Name: "farm-operator"}
	names   = append(ServiceNames(service.Namespace, service.Name, "cluster.local"), "127.0.0.1")
)

// fixture is an observation that a test goes on from.
type fixture struct {
	t testing.TB
	Observed
}

func newFixture(t testing.TB) *fixture {
	return &fixture{t, Observed{Names: names, Lifetimes: DefaultLifetimes, Now: epoch, Targets: []Target{{Name: "first", entries: make([]entry, 1)},
		{Name: "second", entries: make([]entry, 1)}}}}
}

// settled is an observation with which nothing is to be done.
func settled(t testing.TB) *fixture { return newFixture(t).settle() }

// act does what is planned for the Secret.
func (f *fixture) act() Plan {
	f.t.Helper()
	plan := Decide(f.Observed)
	state, err := Advance(f.State, plan, Issuing{f.Names, f.Lifetimes, f.Now, rand.Reader})
	if err != nil {
		f.t.Fatal(err)
	}
	f.State = state
	return plan
}

// inject gives all targets the bundle.
func (f *fixture) inject() *fixture {
	f.Targets = append([]Target(nil), f.Targets...)
	for i := range f.Targets {
		f.Targets[i].entries = []entry{{bundle: f.State.Bundle()}}
	}
	return f
}

// settle does what is planned until there is nothing more to do now.
func (f *fixture) settle() *fixture {
	f.t.Helper()
	for range 10 {
		if plan := f.act(); len(plan.Steps) == 0 && len(plan.Inject) == 0 {
			return f
		}
		f.inject()
	}
	f.t.Fatalf("there is always more to do: %v", Decide(f.Observed).Steps)
	return nil
}

// pass lets time pass.
func (f *fixture) pass(d time.Duration) *fixture {
	f.Now = f.Now.Add(d)
	return f
}

var (
	authorityName = types.NamespacedName{Namespace: "system", Name: "certs-ca"}
	servingName   = types.NamespacedName{Namespace: "default", Name: "certs"}
)

// secrets that keep the state, as they are created.
func (f *fixture) secrets() Secrets {
	f.t.Helper()
	secrets, err := Store(Secrets{}, authorityName, servingName, f.State)
	if err != nil {
		f.t.Fatal(err)
	}
	return secrets
}

func object(kind, name string, fields map[string]any) *unstructured.Unstructured {
	fields["kind"] = kind
	fields["metadata"] = map[string]any{"name": name, "resourceVersion": "7"}
	return &unstructured.Unstructured{Object: fields}
}
