// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

const (
	// conflictRetry is how often we look whether what is in our way has gone: it may not be in our watch.
	conflictRetry = 10 * time.Second
	// settleTime is how far apart two status writes are that show nothing but the progress of a rollout.
	settleTime = time.Second
)

// generationPath is the one field of the Deployment that may be out of date.
const generationPath = "metadata.annotations." + AnnotationGeneration

// plan is what to do, in order, and when to look again if nothing happens before.
type plan struct {
	steps        []step
	requeueAfter time.Duration
}

// step is one of the types below.
type step interface{ String() string }

type (
	// lookAtApp and so on read the object from the API server, and decide again.
	lookAtApp        struct{}
	lookAtDeployment struct{}
	lookAtService    struct{}
	// applyDeployment and applyService apply the desired state: to the object of that UID and no other, or, without a
	// UID, only where there is none. The events are recorded if the object has changed. A repair repeats what was done before.
	applyDeployment struct {
		uid    types.UID
		events []recordEvent
		repair bool
	}
	applyService struct {
		uid    types.UID
		events []recordEvent
		repair bool
	}
	// deleteDeployment and deleteService are guarded by the UID.
	deleteDeployment struct{ uid types.UID }
	deleteService    struct{ uid types.UID }
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct{ status v1.HelloAppStatus }
	// recordEvent records an event on the HelloApp.
	recordEvent struct{ eventType, reason, message string }
)

func (lookAtApp) String() string          { return "look at the live HelloApp" }
func (lookAtDeployment) String() string   { return "look at the live Deployment" }
func (lookAtService) String() string      { return "look at the live Service" }
func (s applyDeployment) String() string  { return describeApply("Deployment", s.uid, s.events) }
func (s applyService) String() string     { return describeApply("Service", s.uid, s.events) }
func (s deleteDeployment) String() string { return fmt.Sprintf("delete Deployment %s", s.uid) }
func (s deleteService) String() string    { return fmt.Sprintf("delete Service %s", s.uid) }
func (s writeStatus) String() string      { return fmt.Sprintf("write status %+v", s.status) }
func (s recordEvent) String() string {
	return fmt.Sprintf("event %s %s %q", s.eventType, s.reason, s.message)
}

func describeApply(what string, uid types.UID, events []recordEvent) string {
	line := "create " + what
	if uid != "" {
		line = fmt.Sprintf("apply %s %s", what, uid)
	}
	for _, event := range events {
		line += ", " + event.String()
	}
	return line
}

// decide brings Deployment and Service to the desired state.
func decide(o observed) plan {
	switch {
	case o.app.DeletionTimestamp != nil:
		return plan{} // the garbage collector deletes both
	case isBehind(o) && !o.appLive:
		return plan{steps: []step{lookAtApp{}}}
	case isInvalid(o.app) && o.app.Spec.Image != "":
		return plan{} // the API server has refused this very spec
	}
	p := decideDeployment(o)
	if isInvalid(o.app) {
		return p // it was the Service that was refused
	}
	service := decideService(o, len(p.steps) > 0)
	return plan{steps: append(p.steps, service.steps...), requeueAfter: controller.EarliestDelay(p.requeueAfter, service.requeueAfter)}
}

// decideDeployment makes the Deployment of the spec, or removes it.
func decideDeployment(o observed) plan {
	if o.app.Spec.Image == "" {
		return withoutImage(o)
	}
	switch o.deploymentOwnership() {
	case controller.None:
		if isConflict(o.app) && !o.deploymentLive {
			return plan{steps: []step{lookAtDeployment{}}} // what was in our way may be there yet, outside of our watch
		}
		if mayBeGone(o) {
			return plan{steps: []step{lookAtApp{}}}
		}
		contest := o.deploymentContest()
		return contest.pace(o.now, applyDeployment{events: []recordEvent{createdEvent(o.app)}, repair: contest.made}, contest.made)
	case controller.Orphaned:
		if !o.appLive {
			return plan{steps: []step{lookAtApp{}}}
		}
		return bringUpDeployment(o)
	case controller.Owned:
		return bringUpDeployment(o)
	default:
		return plan{requeueAfter: o.nextCheck(o.memory.foreignDeployment)}
	}
}

// withoutImage there is no Deployment.
func withoutImage(o observed) plan {
	switch ownershipOf(o.app, o.deployment) {
	case controller.None:
		if !o.deploymentLive && !hasReason(o.app, v1.ReasonImageNotSet) {
			return plan{steps: []step{lookAtDeployment{}}} // once: it may have lost the label by which we watch
		}
	case controller.Owned:
		if !o.memory.isDeleting(o.deployment.UID) {
			return plan{steps: []step{deleteDeployment{o.deployment.UID}}}
		}
	}
	return plan{}
}

// bringUpDeployment applies the spec where it has changed since it was applied last, or the Deployment has.
func bringUpDeployment(o observed) plan {
	drifted := drift(newDeployment(o.app, o.deployment), o.deployment)
	if !isBehind(o) { // an edit of nothing that matters is not worth a request
		drifted = slices.DeleteFunc(drifted, func(path string) bool { return path == generationPath })
	}
	if len(drifted) == 0 {
		return plan{}
	}
	repair := o.deploymentOwnership() == controller.Owned && o.deployment.Annotations[AnnotationSpecHash] == specHash(o.app.Spec)
	return o.deploymentContest().pace(o.now, applyDeployment{o.deployment.UID, changeEvents(o, drifted), repair}, repair)
}

// pace puts a repair off for which it is too soon.
func (c contest) pace(now time.Time, apply step, isRepair bool) plan {
	if wait := c.repairs.Wait(now); isRepair && wait > 0 {
		return plan{requeueAfter: wait}
	}
	return plan{steps: []step{apply}}
}

// decideService makes the Service of the port, or removes it, whatever becomes of the Deployment: what there is in the end
// must not depend on what was there before. Where the Deployment changes, that has an event already.
func decideService(o observed, deploymentChanges bool) plan {
	event := func(reason, message string) []recordEvent {
		if deploymentChanges {
			return nil
		}
		return []recordEvent{{corev1.EventTypeNormal, reason, message}}
	}
	ownership := o.serviceOwnership()
	if o.app.Spec.Port == 0 {
		if ownership == controller.Owned && !o.memory.isDeleting(o.service.UID) {
			return plan{steps: []step{deleteService{o.service.UID}}}
		}
		return plan{}
	}
	switch ownership {
	case controller.None:
		if isConflict(o.app) && !o.serviceLive {
			return plan{steps: []step{lookAtService{}}}
		}
		if mayBeGone(o) {
			return plan{steps: []step{lookAtApp{}}}
		}
		contest := o.serviceContest()
		return contest.pace(o.now, applyService{events: event(eventCreated, fmt.Sprintf("Created Service %s", o.app.Name)), repair: contest.made}, contest.made)
	case controller.Owned:
		if drifted := drift(newService(o.app), o.service); len(drifted) > 0 {
			repair := applyService{o.service.UID, event(eventDriftRestored, restoredMessage("Service", o.app.Name, drifted)), true}
			return o.serviceContest().pace(o.now, repair, true)
		}
		return plan{}
	case controller.Orphaned:
		if !o.appLive {
			return plan{steps: []step{lookAtApp{}}}
		}
		return plan{steps: []step{applyService{uid: o.service.UID, events: event(eventAdopted, fmt.Sprintf("Adopted Service %s", o.app.Name))}}}
	default:
		return plan{requeueAfter: o.nextCheck(o.memory.foreignService)}
	}
}
