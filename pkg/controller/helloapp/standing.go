// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// standing is how a Deployment or a Service of the name that we need stands to the HelloApp.
type standing int

const (
	absent standing = iota
	// ours is controlled by the HelloApp.
	ours
	// orphan has our mark and no controller: its HelloApp was deleted without it. It is adopted, unless the live HelloApp
	// says that this very deletion is going on: it would be deleted with it.
	orphan
	// leaving goes away by itself: it terminates, or is of an earlier HelloApp of the name.
	leaving
	// foreign is somebody else's.
	foreign
)

// standingOfDeployment, as far as it is known: a foreign one outside of our watch is taken to stay until it is time to look.
func (o *observed) standingOfDeployment() standing {
	if o.deployment == nil && !o.deploymentLive && o.now.Sub(o.memory.foreignDeployment) < conflictRetry {
		return foreign
	}
	return standingOf(o.app, o.deployment)
}

// standingOfService likewise.
func (o *observed) standingOfService() standing {
	if o.service == nil && !o.serviceLive && o.now.Sub(o.memory.foreignService) < conflictRetry {
		return foreign
	}
	return standingOf(o.app, o.service)
}

func standingOf[T interface {
	comparable
	metav1.Object
}](app *v1.HelloApp, object T) standing {
	var none T
	switch {
	case object == none:
		return absent
	case metav1.IsControlledBy(object, app) && object.GetDeletionTimestamp() == nil:
		return ours
	case metav1.IsControlledBy(object, app), ofEarlier(app, object):
		return leaving
	case metav1.GetControllerOf(object) != nil || object.GetLabels()[controller.LabelManagedBy] != controller.ManagedBy:
		return foreign
	case object.GetDeletionTimestamp() != nil:
		return leaving
	default:
		return orphan
	}
}

// ofEarlier tells whether the object belongs to an earlier HelloApp of the same name. The garbage collector deletes it.
func ofEarlier(app *v1.HelloApp, object metav1.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Kind == kind.Kind && owner.APIVersion == kind.GroupVersion().String() &&
		owner.Name == app.Name && owner.UID != app.UID
}
