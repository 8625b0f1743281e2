// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import "testing"

// BenchmarkNewPod is the building of the Pod of a start, its hash included.
func BenchmarkNewPod(b *testing.B) {
	for _, spec := range specs {
		b.Run(spec, func(b *testing.B) {
			container := newContainer(withSpec(specFrom(b, spec+".yaml")))
			b.ReportAllocs()
			for b.Loop() {
				newPod(container, 3)
			}
		})
	}
}

// BenchmarkSpecHash is the hash that every sync with a live Pod compares.
func BenchmarkSpecHash(b *testing.B) {
	for _, spec := range specs {
		b.Run(spec, func(b *testing.B) {
			container := newContainer(withSpec(specFrom(b, spec+".yaml")))
			b.ReportAllocs()
			for b.Loop() {
				specHash(container.Spec)
			}
		})
	}
}
