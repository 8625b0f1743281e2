// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"fmt"
	"slices"
	"time"

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

// Asks for the live objects.
type (
	lookAtApp        struct{}
	lookAtDeployment struct{}
	lookAtService    struct{}
)

// Steps.
type (
	// applyDeployment and applyService apply the desired state: to the object of that UID and no other, or, without a
	// UID, only where there is none. The events are recorded if the object has changed. A repair repeats what was done before.
	applyDeployment struct {
		uid    types.UID
		events []controller.RecordEvent
		repair bool
	}
	applyService struct {
		uid    types.UID
		events []controller.RecordEvent
		repair bool
	}
	// deleteDeployment and deleteService are guarded by the UID.
	deleteDeployment struct{ uid types.UID }
	deleteService    struct{ uid types.UID }
	// decideAgain decides again about Deployment and Service before the status is written.
	decideAgain struct{}
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct{ status v1.HelloAppStatus }
)

func (lookAtApp) String() string          { return "read the live HelloApp" }
func (lookAtDeployment) String() string   { return "read the live Deployment" }
func (lookAtService) String() string      { return "read the live Service" }
func (s applyDeployment) String() string  { return describeApply("Deployment", s.uid, s.events) }
func (s applyService) String() string     { return describeApply("Service", s.uid, s.events) }
func (s deleteDeployment) String() string { return fmt.Sprintf("delete Deployment %s", s.uid) }
func (s deleteService) String() string    { return fmt.Sprintf("delete Service %s", s.uid) }
func (decideAgain) String() string        { return "decide again" }
func (s writeStatus) String() string      { return fmt.Sprintf("write status %+v", s.status) }

func describeApply(what string, uid types.UID, events []controller.RecordEvent) string {
	line := "create " + what
	if uid != "" {
		line = fmt.Sprintf("apply %s %s", what, uid)
	}
	for _, event := range events {
		line += ", " + event.String()
	}
	return line
}

// decide brings Deployment and Service to the desired state, and then shows in the status what exists.
func decide(o observed) controller.Plan {
	if o.isBroughtUp {
		return mirror(o)
	}
	p := bringUp(o)
	p.Again = len(p.Asks) == 0
	return p
}

// bringUp brings Deployment and Service to the desired state.
func bringUp(o observed) controller.Plan {
	switch {
	case o.app.DeletionTimestamp != nil:
		return controller.Plan{} // the garbage collector deletes both
	case isBehind(o) && !o.appLive:
		return controller.Plan{Asks: []controller.Ask{lookAtApp{}}}
	case isInvalid(o.app) && o.app.Spec.Image != "":
		return controller.Plan{} // the API server has rejected this very spec
	}
	p := decideDeployment(o)
	if isInvalid(o.app) || len(p.Asks) > 0 {
		return p // what is invalid was the Service
	}
	service := decideService(o, len(p.Steps) > 0)
	if len(service.Asks) > 0 {
		if len(p.Steps) > 0 {
			return controller.Plan{Steps: append(p.Steps, decideAgain{})} // what the Service needs is asked next
		}
		return service
	}
	return controller.Plan{Steps: append(p.Steps, service.Steps...), RequeueAfter: controller.EarliestDelay(p.RequeueAfter, service.RequeueAfter)}
}

// decideDeployment makes the Deployment of the spec, or removes it.
func decideDeployment(o observed) controller.Plan {
	if o.app.Spec.Image == "" {
		return withoutImage(o)
	}
	switch o.deploymentOwnership() {
	case controller.None:
		if isConflict(o.app) && !o.deploymentLive {
			return controller.Plan{Asks: []controller.Ask{lookAtDeployment{}}} // what was in our way may be there yet, outside of our watch
		}
		if mayBeGone(o) {
			return controller.Plan{Asks: []controller.Ask{lookAtApp{}}}
		}
		contest := o.deploymentContest()
		return contest.pace(o.now, applyDeployment{events: []controller.RecordEvent{createdEvent(o.app)}, repair: contest.made}, contest.made)
	case controller.Orphaned:
		if !o.appLive {
			return controller.Plan{Asks: []controller.Ask{lookAtApp{}}}
		}
		return bringUpDeployment(o)
	case controller.Owned:
		return bringUpDeployment(o)
	default:
		return controller.Plan{RequeueAfter: o.nextCheck(o.memory.foreignDeployment)}
	}
}

// withoutImage there is no Deployment.
func withoutImage(o observed) controller.Plan {
	switch ownershipOf(o.app, o.deployment) {
	case controller.None:
		if !o.deploymentLive && !hasReason(o.app, v1.ReasonImageNotSet) {
			return controller.Plan{Asks: []controller.Ask{lookAtDeployment{}}} // once: it may have lost the label by which we watch
		}
	case controller.Owned:
		if !o.memory.isDeleting(o.deployment.UID) {
			return controller.Plan{Steps: []controller.Step{deleteDeployment{o.deployment.UID}}}
		}
	}
	return controller.Plan{}
}

// bringUpDeployment applies the spec where it has changed since it was applied last, or the Deployment has.
func bringUpDeployment(o observed) controller.Plan {
	drifted := drift(newDeployment(o.app, o.deployment), o.deployment)
	if !isBehind(o) { // an edit of nothing that matters is not worth a request
		drifted = slices.DeleteFunc(drifted, func(path string) bool { return path == generationPath })
	}
	if len(drifted) == 0 {
		return controller.Plan{}
	}
	repair := o.deploymentOwnership() == controller.Owned && o.deployment.Annotations[AnnotationSpecHash] == specHash(o.app.Spec)
	return o.deploymentContest().pace(o.now, applyDeployment{o.deployment.UID, changeEvents(o, drifted), repair}, repair)
}

// pace puts a repair off for which it is too soon.
func (c contest) pace(now time.Time, apply controller.Step, isRepair bool) controller.Plan {
	if wait := c.repairs.Wait(now); isRepair && wait > 0 {
		return controller.Plan{RequeueAfter: wait}
	}
	return controller.Plan{Steps: []controller.Step{apply}}
}

// decideService makes the Service of the port, or removes it, whatever becomes of the Deployment: what there is in the end
// must not depend on what was there before. Where the Deployment changes, that has an event already.
func decideService(o observed, deploymentChanges bool) controller.Plan {
	event := func(reason, message string) []controller.RecordEvent {
		if deploymentChanges {
			return nil
		}
		return []controller.RecordEvent{controller.NormalEvent(reason, "%s", message)}
	}
	ownership := o.serviceOwnership()
	if o.app.Spec.Port == 0 {
		if ownership == controller.Owned && !o.memory.isDeleting(o.service.UID) {
			return controller.Plan{Steps: []controller.Step{deleteService{o.service.UID}}}
		}
		return controller.Plan{}
	}
	switch ownership {
	case controller.None:
		if isConflict(o.app) && !o.serviceLive {
			return controller.Plan{Asks: []controller.Ask{lookAtService{}}}
		}
		if mayBeGone(o) {
			return controller.Plan{Asks: []controller.Ask{lookAtApp{}}}
		}
		contest := o.serviceContest()
		return contest.pace(o.now, applyService{events: event(eventCreated, fmt.Sprintf("Created Service %s", o.app.Name)), repair: contest.made}, contest.made)
	case controller.Owned:
		if drifted := drift(newService(o.app), o.service); len(drifted) > 0 {
			repair := applyService{o.service.UID, event(eventDriftRestored, restoredMessage("Service", o.app.Name, drifted)), true}
			return o.serviceContest().pace(o.now, repair, true)
		}
		return controller.Plan{}
	case controller.Orphaned:
		if !o.appLive {
			return controller.Plan{Asks: []controller.Ask{lookAtApp{}}}
		}
		return controller.Plan{Steps: []controller.Step{applyService{uid: o.service.UID, events: event(eventAdopted, fmt.Sprintf("Adopted Service %s", o.app.Name))}}}
	default:
		return controller.Plan{RequeueAfter: o.nextCheck(o.memory.foreignService)}
	}
}
