// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

const (
	// LabelManagedBy is on all that the operator makes, with the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "millwright"

	// LabelActionSet carries the UID of the ActionSet on what is made for it.
	LabelActionSet = "millwright.dev/actionset-uid"
	// LabelPhase carries the indexes of the phase, as ID.String gives them, on its Pod.
	LabelPhase = "millwright.dev/phase"
	// AnnotationActionSet carries the namespace and the name of the ActionSet on the Pods of its phases.
	AnnotationActionSet = "millwright.dev/actionset"

	// AnnotationNonce carries the nonce of the intent on the Pod of a phase.
	AnnotationNonce = "millwright.dev/nonce"

	// AnnotationReleased is when the Pod of a phase was released, as time.RFC3339.
	AnnotationReleased = "millwright.dev/released"

	// AnnotationPhase is on what a phase has created or patched, and names the phase, with the nonce of the intent. With it the effect is found
	// again, and distinguished from that of another phase.
	AnnotationPhase = "millwright.dev/phase"

	// AnnotationScaled is the same on a workload that a phase has scaled.
	AnnotationScaled = "millwright.dev/scaled-by"
)
