// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
	"testing"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// observedOf returns what is observed of a Machine that owns count switches.
func observedOf(count int, status machineOption, options ...switchOption) *observed {
	var switches []*v1alpha1.Switch
	for i := range count {
		switches = append(switches, switchOf(fmt.Sprintf("switch-%05d", i), options...))
	}
	return observe(newMachine(int32(count), status), switches...)
}

// BenchmarkPlan measures the first plan of a sync, by what is observed.
func BenchmarkPlan(b *testing.B) {
	for _, count := range []int{1, 4, 100} {
		for _, state := range []struct {
			name string
			o    *observed
		}{
			// What nearly every sync is: after a restart, and after each of our own writes.
			{"nothing_to_do", observedOf(count, settled(strings.Repeat("d", count)))},
			{"all_seen_up", observedOf(count, settled(strings.Repeat("d", count)), up)},
			{"one_due_of_all_up", observedOf(count, settled(strings.Repeat("u", count)), upSince(-9))},
		} {
			b.Run(fmt.Sprintf("switches=%d/%s", count, state.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					decide(state.o)
				}
			})
		}
	}
}

// BenchmarkStatus measures the building of the status.
func BenchmarkStatus(b *testing.B) {
	for _, count := range []int{1, 4, 100} {
		o := observedOf(count, settled(strings.Repeat("d", count)))
		b.Run(fmt.Sprintf("switches=%d", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				nextStatus(o)
			}
		})
	}
}

// BenchmarkNames measures the naming of all slots of a Machine.
func BenchmarkNames(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		freeNames("5f0c3a52-7f7c-4b0e-9d52-2f4ad5f0f7a1", nil, 100)
	}
}
