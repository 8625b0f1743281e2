// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const apiServerMetrics = `# HELP apiserver_request_total Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="immortalcontainers.flugel.it",resource="immortalcontainers",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 2000
apiserver_request_total{code="409",component="apiserver",dry_run="",group="immortalcontainers.flugel.it",resource="immortalcontainers",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="immortalcontainers.flugel.it",resource="immortalcontainers",scope="resource",subresource="",verb="POST",version="v1alpha1"} 1000
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1000
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 1000
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 998
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="PATCH",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="events.k8s.io",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 1000
# TYPE apiserver_request_duration_seconds histogram
apiserver_request_duration_seconds_bucket{le="+Inf"} 7
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
`

func TestTheCountersAreOfTheRequestsOfAWorkloadAloneRefusedOnesIncluded(t *testing.T) {
	got, err := parseCounters(apiServerMetrics)
	if err != nil {
		t.Fatal(err)
	}
	requests := containersOf(1).requests
	want := counters{map[string]int{"PUT immortalcontainers/status": 2003, "POST pods": 1000}, 12.5}
	if diff := cmp.Diff(want, got.only(requests), cmp.AllowUnexported(counters{})); diff != "" {
		t.Errorf("not as it is to be (-want +got):\n%s", diff)
	}
	earlier := counters{map[string]int{"PUT immortalcontainers/status": 3, "POST pods": 1}, 2.5}
	if got := got.minus(earlier).only(requests); got.total() != 2999 || got.cpuSeconds != 10 {
		t.Errorf("after four earlier ones it is %v", got)
	}
}

func TestMetricsAreSummedOverTheirLabelsAndHistogramsLeftOut(t *testing.T) {
	metrics, err := parseMetrics(strings.NewReader(`# TYPE syncs counter
syncs{result="success"} 40
syncs{result="error"} 2
# TYPE depth gauge
depth 3
# TYPE plain untyped
plain 4
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 5
seconds_sum 6
seconds_count 5
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"syncs": 42, "depth": 3, "plain": 4, "seconds": 0, "none": 0} {
		if got := metrics.sum(name); got != want {
			t.Errorf("the sum of %s is %v, want %v", name, got, want)
		}
	}
	if _, err := parseMetrics(strings.NewReader("no metrics at all {")); err == nil {
		t.Error("what are no metrics is read as if they were")
	}
}
