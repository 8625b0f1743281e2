// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"

	"millwright.dev/pkg/controller"
)

// specs are what the benchmarks vary: the two-line manifest, and one that says about everything that a Pod can say.
var specs = []string{"minimal", "rich"}

// observedFrom is a sync's state of that spec: with the Pod of its second start, or without a Pod.
func observedFrom(b *testing.B, spec string, withPod bool, options ...podOption) observed {
	b.Helper()
	container := newContainer(withSpec(specFrom(b, spec+".yaml")), withStatus(running(2)))
	o := observed{container: container, memory: podMemory{seen: 2}, now: noon}
	if !withPod {
		o.memory.gone = 2
		return o
	}
	o.pod = newPod(container, 2)
	o.pod.UID = "uid-pod-2"
	for _, option := range options {
		option(o.pod)
	}
	return o
}

// BenchmarkDecide is the plan of a sync, by what is observed.
func BenchmarkDecide(b *testing.B) {
	for _, spec := range specs {
		for _, state := range []struct {
			name  string
			o     observed
			steps int
		}{
			// What nearly every sync is: after a restart, and after each of our own writes.
			{"nothing_to_do", observedFrom(b, spec, true, podReady), 0},
			{"start", observedFrom(b, spec, false), 3},
			{"pod_became_unready", observedFrom(b, spec, true), 1},
			{"pod_terminates", observedFrom(b, spec, true, podReady, podTerminating(-10)), 1},
			{"pod_failed", observedFrom(b, spec, true, podEnded(1, "Error", -1)), 4},
			{"spec_changed", observedFrom(b, spec, true, podReady, podOfOldSpec), 3},
		} {
			b.Run(spec+"/"+state.name, func(b *testing.B) {
				b.ReportAllocs()
				var p controller.Plan
				for b.Loop() {
					p = decide(state.o)
				}
				if len(p.Steps) != state.steps {
					b.Fatalf("the plan has %d steps, want %d: %v", len(p.Steps), state.steps, describe(p))
				}
			})
		}
	}
}

// BenchmarkStatus is the building of the statuses that a start and a recovery write, without the rest of their plans.
func BenchmarkStatus(b *testing.B) {
	withPod, without := observedFrom(b, "minimal", true, podReady), observedFrom(b, "minimal", false)
	for _, status := range []struct {
		name  string
		build func()
	}{
		{"creating", func() { creatingStatus(without) }},
		{"running", func() { runningStatus(withPod) }},
		{"running_compared", func() { statusStep(withPod, runningStatus(withPod)) }},
		{"terminating", func() { terminatingStatus(withPod) }},
	} {
		b.Run(status.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				status.build()
			}
		})
	}
	b.Run("terminated", func(b *testing.B) {
		failed := observedFrom(b, "minimal", true, podEnded(1, "Error", -60))
		b.ReportAllocs()
		for b.Loop() {
			terminatedStatus(failed)
		}
	})
}
