// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// observed is all that a sync decides from. Nothing of it is changed.
type observed struct {
	app *v1.HelloApp
	// deployment and service have the HelloApp's name, but may be foreign; nil if there are none.
	deployment *appsv1.Deployment
	service    *corev1.Service
	// appLive, deploymentLive and serviceLive report whether the object was read from the API server, not from the cache.
	appLive, deploymentLive, serviceLive bool
	// isBroughtUp reports whether Deployment and Service are done in this sync, and only the status is left.
	isBroughtUp bool
	// rejection is why the API server has rejected an apply; nil if it has not.
	rejection *controller.Rejection
	// memory is what this process knows in addition to the caches.
	memory memory
	now    time.Time
}

// memory is what one process remembers of one HelloApp.
type memory struct {
	// mirrored is when the status was written last.
	mirrored time.Time
	// foreignDeployment and foreignService are when the API server has shown a foreign object that our watch does not.
	foreignDeployment, foreignService time.Time
	// deleting are the UIDs of the objects whose deletion the API server has accepted.
	deleting [2]types.UID
	// deployment and service are their repairs.
	deployment, service contest
}

// deploymentOwnership returns the ownership of the Deployment of our name. A foreign one outside of our watch counts as foreign until the next
// check is due.
func (o *observed) deploymentOwnership() controller.Ownership {
	if o.deployment == nil && !o.deploymentLive && o.now.Sub(o.memory.foreignDeployment) < conflictRetry {
		return controller.Foreign
	}
	return ownershipOf(o.app, o.deployment)
}

// serviceOwnership returns that of the Service, in the same way.
func (o *observed) serviceOwnership() controller.Ownership {
	if o.service == nil && !o.serviceLive && o.now.Sub(o.memory.foreignService) < conflictRetry {
		return controller.Foreign
	}
	return ownershipOf(o.app, o.service)
}

// ownershipOf returns the ownership of a Deployment or a Service of our name. An orphan with our label is adopted, unless the live HelloApp is
// being deleted: the orphan would be deleted with it.
func ownershipOf[T interface {
	comparable
	metav1.Object
}](app *v1.HelloApp, object T) controller.Ownership {
	return controller.OwnershipOf(app, kind, object, func(object T) bool {
		return object.GetLabels()[controller.LabelManagedBy] == controller.ManagedBy
	})
}

// mayBeGone reports whether a missing object may have been garbage-collected with the HelloApp, whose deletion the watch has not shown yet. A
// new object would be collected too, but run for a moment.
func mayBeGone(o observed) bool {
	return o.app.Status.DeploymentName != "" && !o.appLive
}

// isBehind reports whether the Deployment is of a later spec than the observed one. A stale cache would roll it back.
func isBehind(o observed) bool {
	return o.deployment != nil && metav1.IsControlledBy(o.deployment, o.app) && appliedGeneration(o.deployment) > o.app.Generation
}

// nextCheck returns the delay until a foreign object, which was last seen at the given time, is checked again. A sync in between does not
// postpone it.
func (o *observed) nextCheck(seen time.Time) time.Duration {
	if rest := seen.Add(conflictRetry).Sub(o.now); rest > 0 {
		return rest
	}
	return conflictRetry
}

func (m memory) isDeleting(uid types.UID) bool { return m.deleting[0] == uid || m.deleting[1] == uid }
