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
	// conflictRetry is how often a sync checks whether a foreign object of our name is gone: it may not be in our watch.
	conflictRetry = 10 * time.Second
	// settleTime is the least time between two status writes that show only the progress of a rollout.
	settleTime = time.Second
)

// generationPath is the only field of the Deployment that may be out of date.
const generationPath = "metadata.annotations." + AnnotationGeneration

// Asks for the live objects.
type (
	readApp        struct{}
	readDeployment struct{}
	readService    struct{}
)

// Steps.
type (
	// applyDeployment and applyService apply the desired state: only to the object of that UID, or, without a UID, only if there is no
	// object. The events are recorded if the object has changed. A repair restores what was already applied.
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

func (readApp) String() string            { return "read the live HelloApp" }
func (readDeployment) String() string     { return "read the live Deployment" }
func (readService) String() string        { return "read the live Service" }
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
		return controller.Plan{Asks: []controller.Ask{readApp{}}}
	}
	p := decideDeployment(o)
	if len(p.Asks) > 0 {
		return p
	}
	service := decideService(o, len(p.Steps) > 0)
	if len(service.Asks) > 0 {
		if len(p.Steps) > 0 {
			return controller.Plan{Steps: append(p.Steps, decideAgain{})} // the asks of the Service are next
		}
		return service
	}
	return controller.Plan{Steps: append(p.Steps, service.Steps...), RequeueAfter: controller.EarliestDelay(p.RequeueAfter, service.RequeueAfter)}
}

// decideDeployment applies the Deployment of the spec, or deletes it.
func decideDeployment(o observed) controller.Plan {
	if o.app.Spec.Image == "" {
		return withoutImage(o)
	}
	switch o.deploymentOwnership() {
	case controller.None:
		if isConflict(o.app) && !o.deploymentLive {
			return controller.Plan{Asks: []controller.Ask{readDeployment{}}} // the foreign object may still exist, outside of our watch
		}
		if mayBeGone(o) {
			return controller.Plan{Asks: []controller.Ask{readApp{}}}
		}
		contest := o.deploymentContest()
		return contest.pace(o.now, applyDeployment{events: []controller.RecordEvent{createdEvent(o.app)}, repair: contest.made}, contest.made)
	case controller.Orphaned:
		if !o.appLive {
			return controller.Plan{Asks: []controller.Ask{readApp{}}}
		}
		return bringUpDeployment(o)
	case controller.Owned:
		return bringUpDeployment(o)
	default:
		return controller.Plan{RequeueAfter: o.nextCheck(o.memory.foreignDeployment)}
	}
}

// withoutImage deletes the Deployment of an app without an image.
func withoutImage(o observed) controller.Plan {
	switch ownershipOf(o.app, o.deployment) {
	case controller.None:
		if !o.deploymentLive && !hasReason(o.app, v1.ReasonImageNotSet) {
			return controller.Plan{Asks: []controller.Ask{readDeployment{}}} // once: it may have lost the label by which we watch
		}
	case controller.Owned:
		if !o.memory.isDeleting(o.deployment.UID) {
			return controller.Plan{Steps: []controller.Step{deleteDeployment{o.deployment.UID}}}
		}
	}
	return controller.Plan{}
}

// bringUpDeployment applies the spec if it, or the Deployment, has changed since the last apply.
func bringUpDeployment(o observed) controller.Plan {
	drifted := drift(newDeployment(o.app, o.deployment), o.deployment)
	if !isBehind(o) { // an edit of fields that have no effect needs no request
		drifted = slices.DeleteFunc(drifted, func(path string) bool { return path == generationPath })
	}
	if len(drifted) == 0 {
		return controller.Plan{}
	}
	repair := o.deploymentOwnership() == controller.Owned && o.deployment.Annotations[AnnotationSpecHash] == specHash(o.app.Spec)
	return o.deploymentContest().pace(o.now, applyDeployment{o.deployment.UID, changeEvents(o, drifted), repair}, repair)
}

// pace delays a repair until its backoff is over.
func (c contest) pace(now time.Time, apply controller.Step, isRepair bool) controller.Plan {
	if wait := c.repairs.Wait(now); isRepair && wait > 0 {
		return controller.Plan{RequeueAfter: wait}
	}
	return controller.Plan{Steps: []controller.Step{apply}}
}

// decideService applies the Service of the port, or deletes it, whatever happens to the Deployment: the final state must not depend on
// the state before. If the Deployment changes, there is an event already.
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
			return controller.Plan{Asks: []controller.Ask{readService{}}}
		}
		if mayBeGone(o) {
			return controller.Plan{Asks: []controller.Ask{readApp{}}}
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
			return controller.Plan{Asks: []controller.Ask{readApp{}}}
		}
		return controller.Plan{Steps: []controller.Step{applyService{uid: o.service.UID, events: event(eventAdopted, fmt.Sprintf("Adopted Service %s", o.app.Name))}}}
	default:
		return controller.Plan{RequeueAfter: o.nextCheck(o.memory.foreignService)}
	}
}
