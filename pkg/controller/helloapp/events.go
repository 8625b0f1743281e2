// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// Event reasons.
const (
	eventCreated       = "Created"
	eventAdopted       = "Adopted"
	eventScaled        = "Scaled"
	eventUpdated       = "Updated"
	eventDriftRestored = "DriftRestored"
	eventApplyFailed   = "FailedApply"
	eventContested     = "Contested"
)

func createdEvent(app *v1.HelloApp) controller.RecordEvent {
	return controller.NormalEvent(eventCreated, "Created Deployment %s with image %s and size %d", app.Name, app.Spec.Image, app.Spec.Size)
}

// changeEvents returns the events that report how the Deployment changes, and why.
func changeEvents(o observed, drifted []string) (events []controller.RecordEvent) {
	add := func(reason, message string) {
		events = append(events, controller.NormalEvent(reason, "%s", message))
	}
	applied, marked := o.deployment.Annotations[AnnotationSpecHash]
	switch {
	case !marked || !metav1.IsControlledBy(o.deployment, o.app):
		add(eventAdopted, fmt.Sprintf("Adopted Deployment %s", o.app.Name))
	case applied == specHash(o.app.Spec):
		add(eventDriftRestored, restoredMessage("Deployment", o.app.Name, drifted))
		return events
	}
	if from := o.deployment.Spec.Replicas; from != nil && *from != o.app.Spec.Size {
		add(eventScaled, fmt.Sprintf("Scaled from %d to %d", *from, o.app.Spec.Size))
	}
	if from := imageOf(o.app, o.deployment); from != "" && from != o.app.Spec.Image {
		add(eventUpdated, fmt.Sprintf("Updated the image from %s to %s", from, o.app.Spec.Image))
	}
	if len(events) == 0 {
		add(eventUpdated, "Updated: the spec has changed")
	}
	return events
}

// restoredMessage names the fields that were restored.
func restoredMessage(what, name string, drifted []string) string {
	return fmt.Sprintf("Restored %s %s, which differed in %s", what, name, strings.Join(drifted, ", "))
}
