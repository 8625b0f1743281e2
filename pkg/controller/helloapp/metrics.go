// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// Results of an apply that has changed something.
const (
	resultCreated  = "created"
	resultAdopted  = "adopted"
	resultUpdated  = "updated"
	resultRestored = "restored"
)

var (
	applies = controller.NewCounterVec("millwright_helloapp", "applies_total",
		"Number of applies that have changed an object, by its kind and result: created, adopted (it had no controller), "+
			"updated (the HelloApp has changed), restored (another client had changed the object).",
		controller.Label("object", "Deployment", "Service"),
		controller.Label("result", resultCreated, resultAdopted, resultUpdated, resultRestored))

	conflictsMet = controller.NewCounter("millwright_helloapp", "conflicts_total",
		"Number of times that a Deployment or a Service that is not the HelloApp's own had its name.")
)

// readyReasons are states of their own in millwright_objects: our reasons, and those of Deployments without progress.
var readyReasons = []string{
	v1.ReasonProgressing, v1.ReasonImageNotSet, v1.ReasonContested, eventApplyFailed,
	"ProgressDeadlineExceeded", "FailedCreate", "ReplicaSetCreateError", "DeploymentPaused",
	string(metav1.StatusReasonForbidden), string(metav1.StatusReasonInvalid),
}

// publishMetrics publishes the metrics until the context ends. All results exist from the first scrape on, with 0.
func publishMetrics(ctx context.Context, apps cache.SharedIndexInformer) {
	applies.ShowZero()
	controller.CountObjects(ctx, apps, kind.Kind, func(app *v1.HelloApp) []metav1.Condition { return app.Status.Conditions }, readyReasons...)
}

// resultOf returns the result of an apply with these events. The UID is that of the object before the apply; "" if there was none.
func resultOf(app *v1.HelloApp, uid types.UID, before metav1.Object, events []controller.RecordEvent) string {
	switch {
	case uid == "":
		return resultCreated
	case !metav1.IsControlledBy(before, app):
		return resultAdopted
	case slices.ContainsFunc(events, func(event controller.RecordEvent) bool { return event.Reason == eventDriftRestored }):
		return resultRestored
	default:
		return resultUpdated
	}
}
