// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/controller"
)

// specs are what the benchmarks vary: the two-field manifest, and one that says all that a HelloApp can say.
var specs = []string{"minimal", "rich"}

// observedFrom is a sync's state of that spec, with its Deployment and Service rolled out and mirrored.
func observedFrom(b *testing.B, spec string, options ...deploymentOption) observed {
	b.Helper()
	app := newApp(withSpec(specFrom(b, spec+".yaml")))
	o := observed{app: app, deployment: deploymentOf(app, append([]deploymentOption{defaulted, rolledOut}, options...)...), now: noon}
	if app.Spec.Port != 0 {
		o.service = serviceOf(app)
	}
	mirroring(deploymentOf(app, rolledOut), o.service)(app)
	return o
}

// BenchmarkDecide is the first half of a sync, by what is observed.
func BenchmarkDecide(b *testing.B) {
	for _, spec := range specs {
		for _, state := range []struct {
			name  string
			o     observed
			steps int
		}{
			// What nearly every sync is: after a restart, and on the way of a rollout.
			{"nothing_to_do", observedFrom(b, spec), 0},
			{"drift", observedFrom(b, spec, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) }), 1},
			{"foreign", observedFrom(b, spec, deployed(ofAnotherOwner)), 0},
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

// BenchmarkMirror is the second half of a sync.
func BenchmarkMirror(b *testing.B) {
	for _, state := range []struct {
		name  string
		o     observed
		steps int
	}{
		{"nothing_new", observedFrom(b, "minimal"), 0},
		{"progress", observedFrom(b, "minimal", counts(1, 2, 2, 1)), 1},
	} {
		b.Run(state.name, func(b *testing.B) {
			b.ReportAllocs()
			var p controller.Plan
			for b.Loop() {
				p = mirror(state.o)
			}
			if len(p.Steps) != state.steps {
				b.Fatalf("the plan has %d steps, want %d: %v", len(p.Steps), state.steps, describe(p))
			}
		})
	}
}

// BenchmarkNewDeployment is the building of what is applied, its hash included.
func BenchmarkNewDeployment(b *testing.B) {
	for _, spec := range specs {
		b.Run(spec, func(b *testing.B) {
			app := newApp(withSpec(specFrom(b, spec+".yaml")))
			b.ReportAllocs()
			for b.Loop() {
				newDeployment(app, nil)
			}
		})
	}
}
