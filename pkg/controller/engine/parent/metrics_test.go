// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/testing/metricstest"
)

func TestMetricsExistFromInitToDelete(t *testing.T) {
	labels := func(controller string) map[string]string { return map[string]string{"controller_name": controller} }
	counted := func(controller string) map[string]map[string]float64 {
		return map[string]map[string]float64{
			"parents": metricstest.Scraped(t, "millwright_composite_parents", "controller_name", labels(controller)),
			"changes": metricstest.Scraped(t, "millwright_composite_child_changes_total", "change", labels(controller)),
			"syncs":   metricstest.Scraped(t, "millwright_composite_syncs_total", "result", labels(controller)),
		}
	}
	want := func(controller string, want map[string]map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, counted(controller)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", controller, diff)
		}
	}
	none := map[string]map[string]float64{"parents": {}, "changes": {}, "syncs": {}}

	for _, controller := range []string{"one", "two"} {
		InitMetrics(Composite, controller)
		want(controller, map[string]map[string]float64{
			"parents": {controller: 0},
			"changes": {"created": 0, "updated": 0, "recreated": 0, "deleted": 0, "adopted": 0, "released": 0},
			"syncs":   {"changed": 0, "unchanged": 0, "error": 0},
		})
	}
	setParentCount(Composite, "one", 7)
	setParentCount(Composite, "one", 5)
	countChild(Composite, "one", changeCreated)
	countChild(Composite, "one", changeCreated)
	countChild(Composite, "one", changeAdopted)
	countSync(Composite, "one", resultChanged)
	countSync(Composite, "two", resultError)
	DeleteMetrics(Composite, "two")
	want("two", none)
	want("one", map[string]map[string]float64{
		"parents": {"one": 5},
		"changes": {"created": 2, "updated": 0, "recreated": 0, "deleted": 0, "adopted": 1, "released": 0},
		"syncs":   {"changed": 1, "unchanged": 0, "error": 0},
	})
	DeleteMetrics(Composite, "one")
	want("one", none)
}
