// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// TestStalledWatchIsNamed: a controller that sees no changes of its kind any more, because a right was taken away or the API server fails, is not ready.
func TestStalledWatchIsNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	o := startOperator(e, "operator", &faultproxy.Journal{}, electionFlags(patientElection)...)
	o.awaitWarm()
	const (
		machines = "machines.v1alpha1.useless.container.training"
		sample   = `millwright_watches_stalled{resource="` + machines + `"} `
	)
	awaitMetric := func(value string) {
		t.Helper()
		e.eventually(func() string {
			if !strings.Contains(o.get("/metrics"), sample+value) {
				return "the metric is not " + value
			}
			return ""
		})
	}
	awaitMetric("0")
	for want, answer := range map[string]*apierrors.StatusError{
		"taken away": apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("taken away")),
		"broken":     apierrors.NewInternalError(errors.New("broken")),
	} {
		end := o.proxy.Answer(func(r faultproxy.Request) bool {
			return r.Resource == "machines" && (r.Verb == "list" || r.Verb == "watch")
		}, answer)
		o.proxy.CutWatches()
		awaitMetric("1")
		for _, text := range []string{"no list or watch of " + machines, want} {
			if got := readiness(o.address(), "watches"); !strings.Contains(got, text) {
				t.Errorf("readyz: got %s, want %q in it", got, text)
			}
		}
		end()
		awaitMetric("0")
		o.awaitWarm()
	}
	o.terminate()
}
