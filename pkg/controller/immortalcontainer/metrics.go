// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

var (
	podsStarted = controller.NewCounterVec("millwright_immortalcontainer", "pods_started_total",
		"Number of Pods that the API server has accepted, by cause: first (of an ImmortalContainer), succeeded or failed (so ended the one before), "+
			"deleted (another client has deleted it), replaced (the spec has changed), resumed (after spec.suspend), "+
			"reserved (an earlier try had only counted the start).",
		controller.Label("cause", causes...))

	podsAdopted = controller.NewCounter("millwright_immortalcontainer", "pods_adopted_total",
		"Number of Pods that ImmortalContainers have adopted: an ImmortalContainer of the same name was deleted without them (--cascade=orphan).")

	conflictsMet = controller.NewCounter("millwright_immortalcontainer", "conflicts_total",
		"Number of times that a Pod that is not the ImmortalContainer's own had the name that its Pod needs.")
)

// readyReasons are states of their own in millwright_objects: our reasons, and the usual ones of Pods that do not start.
var readyReasons = []string{
	reasonPodStarting, reasonPodNotReady, reasonPodTerminating,
	v1alpha1.ReasonReplacing, v1alpha1.ReasonBackingOff, v1alpha1.ReasonWaitingForTermination, v1alpha1.ReasonSuspended,
	"ContainersNotReady", "Unschedulable", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CrashLoopBackOff",
	string(metav1.StatusReasonForbidden), string(metav1.StatusReasonInvalid),
}

// publishMetrics publishes the metrics until the context ends. All causes exist from the first scrape on, with 0.
func publishMetrics(ctx context.Context, containers cache.SharedIndexInformer) {
	podsStarted.ShowZero()
	controller.CountObjects(ctx, containers, kind.Kind,
		func(container *v1alpha1.ImmortalContainer) []metav1.Condition { return container.Status.Conditions }, readyReasons...)
}
