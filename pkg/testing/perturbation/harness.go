// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// AllPatternsVariable is the environment variable that makes Test try every pattern at every point. Any value but "" does.
const AllPatternsVariable = "PERTURB_ALL"

// Cluster is the cluster of the runs.
type Cluster interface {
	// Config returns a configuration with full rights and without a limit on requests.
	Config() *rest.Config
	// Namespace creates a namespace for one run.
	Namespace(t testing.TB) string
}

// Test runs the scenario undisturbed, then disturbed by every pattern at every point, with many concurrent runs. Each run is a subtest. A
// failure has the command that repeats only this run. With -short there is only one disturbed run: a crash after the first write.
func Test(t *testing.T, cluster Cluster, scenario Scenario) {
	t.Helper()
	undisturbed, err := execute(t, cluster, scenario, Pattern{}, Point{})
	if err != nil {
		t.Fatalf("The undisturbed run failed: %v\n%s", err, undisturbed.history)
	}
	patterns := standardPatterns(undisturbed.watched)
	all := os.Getenv(AllPatternsVariable) != ""
	switch {
	case all:
		patterns = append(patterns, morePatterns(undisturbed.watched, scenario.Flicker != nil)...)
	case testing.Short():
		patterns = shortPatterns()
	}
	var tried, held atomic.Int32
	t.Cleanup(func() {
		t.Logf("%d points, %d patterns: %d tried, %d held", len(undisturbed.points), len(patterns), tried.Load(), held.Load())
	})
	for _, pattern := range patterns {
		t.Run(pattern.Name, func(t *testing.T) {
			t.Parallel()
			points := undisturbed.points
			switch {
			case pattern.strike == nil:
				points = []Point{{}}
			case testing.Short() && !all:
				points = points[:min(1, len(points))]
			case pattern.firstOfAct && !all:
				points = undisturbed.first
			case !all:
				points = pattern.inTurn(points)
			}
			for _, point := range points {
				t.Run(point.String(), func(t *testing.T) {
					t.Parallel()
					disturbed, err := execute(t, cluster, scenario, pattern, point)
					if !disturbed.struck && pattern.strike != nil {
						t.Logf("This run did not reach its point: not counted as tried")
						return
					}
					tried.Add(1)
					if problem := verdict(undisturbed, disturbed, err); problem != "" {
						t.Errorf("%s at %s: %s\n\nHistory (#n is the n-th instance of the controller):\n%s\n\nRun just this one:\n  %s",
							pattern.Name, point, problem, disturbed.history, rerun(t.Name()))
						return
					}
					held.Add(1)
				})
			}
		})
	}
}

// verdict returns "" if the disturbed run ended in the same state, and the problem otherwise.
func verdict(undisturbed, disturbed result, err error) string {
	if err != nil {
		return err.Error()
	}
	if diff := cmp.Diff(strings.Split(undisturbed.state, "\n"), strings.Split(disturbed.state, "\n")); diff != "" {
		return "ended in another state (-want, undisturbed; +got, disturbed):\n" + diff
	}
	return ""
}

// rerun returns the command that runs one subtest, with its parents: a disturbed run needs the undisturbed one before it.
func rerun(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("%s=1 go test ./pkg/testing/perturbation -count=1 -run '%s'", AllPatternsVariable, strings.Join(parts, "/"))
}

func execute(t *testing.T, cluster Cluster, scenario Scenario, pattern Pattern, point Point) (result, error) {
	t.Helper()
	config := cluster.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		return result{}, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return result{}, err
	}
	r := &run{
		scenario:  &scenario,
		user:      &User{Config: config, Client: client, Namespace: cluster.Namespace(t), clusterScoped: scenario.ClusterScoped},
		transport: transport,
		pattern:   pattern,
		point:     point,
		history:   newHistory(),
	}
	logger := funcr.New(func(prefix, args string) { r.history.add("     log %s %s", prefix, args) }, funcr.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	defer cancel()
	return r.execute(ctx)
}
