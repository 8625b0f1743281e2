// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"millwright.dev/pkg/testing/metricstest"
)

func TestFlipsAreCountedWithHowLateTheyWere(t *testing.T) {
	for name, tc := range map[string]struct {
		does func(a *apiServer, stop func())
		want map[string]float64
		late float64 // seconds, the sum
	}{
		"three switches flipped together move in turn, none of them late": {func(a *apiServer, _ func()) {
			for _, name := range []string{"switch-pdxzk", "switch-b566m", "switch-kjfqt"} {
				a.flip(name, "up")
			}
		}, map[string]float64{"switch": 3}, 0},
		"a lever": {func(a *apiServer, _ func()) { a.edit("m", withLever("up")) }, map[string]float64{"lever": 1}, 0},
		"a switch that came due while nothing ran": {func(a *apiServer, stop func()) {
			a.flip("switch-pdxzk", "up")
			time.Sleep(time.Second)
			synctest.Wait()
			stop()
			time.Sleep(24 * time.Second)
			a.operate()
		}, map[string]float64{"switch": 1}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				const metric = "millwright_machine_flips_total"
				before, lateBefore, observed := metricstest.Scraped(t, metric, "target", nil), latenessOf(t), latenessCount(t)
				a.apply(newMachine(3))
				stop, _ := a.operate()
				a.took()
				tc.does(a, stop)
				time.Sleep(time.Hour)
				synctest.Wait()
				risen := metricstest.Rises(t, metric, "target", nil, before)
				if diff := cmp.Diff(tc.want, risen); diff != "" {
					t.Errorf("flips (-want +got):\n%s", diff)
				}
				if got := latenessOf(t) - lateBefore; got < tc.late-0.001 || got > tc.late+0.001 {
					t.Errorf("%v seconds late in all, want %v", got, tc.late)
				}
				if got := latenessCount(t) - observed; got != risen["switch"]+risen["lever"] {
					t.Errorf("the lateness of %v flips is known, of %v", got, risen)
				}
			})
		})
	}
}

func latenessOf(t *testing.T) (seconds float64) {
	t.Helper()
	for _, target := range []string{targetSwitch, targetLever} {
		sum, err := testutil.GetHistogramMetricValue(lateness.WithLabelValues(target))
		if err != nil {
			t.Fatal(err)
		}
		seconds += sum
	}
	return seconds
}

func latenessCount(t *testing.T) (flips float64) {
	t.Helper()
	for _, target := range []string{targetSwitch, targetLever} {
		count, err := testutil.GetHistogramMetricCount(lateness.WithLabelValues(target))
		if err != nil {
			t.Fatal(err)
		}
		flips += float64(count)
	}
	return flips
}

func TestSwitchesThatComeAndGoAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		const metric = "millwright_machine_switch_changes_total"
		before := metricstest.Scraped(t, metric, "change", nil)
		a.apply(newMachine(3))
		a.operate()
		synctest.Wait()
		a.label("switch-b566m", nil) // is released, and another one is made
		synctest.Wait()
		a.label("switch-b566m", map[string]string{"machine": "m"}) // is adopted, and is then one too many
		synctest.Wait()
		want := map[string]float64{"created": 4, "released": 1, "adopted": 1, "deleted": 1}
		if diff := cmp.Diff(want, metricstest.Rises(t, metric, "change", nil, before)); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestMetricsOfStates(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.apply(newMachine(3))
		a.apply(newMachine(1, named("n"), withSelector(metav1.LabelSelector{MatchLabels: map[string]string{"machine": "m"}})))
		stop, _ := a.operate()
		synctest.Wait()
		if diff := cmp.Diff(map[string]float64{"Ready": 1, "SelectorOverlap": 1}, metricstest.States(t, "Machine")); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		stop()
		synctest.Wait()
		if got := metricstest.States(t, "Machine"); len(got) > 0 {
			t.Errorf("after the controller has stopped %v are counted", got)
		}
	})
}
