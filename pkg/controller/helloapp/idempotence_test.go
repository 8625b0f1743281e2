// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// world is what there is: a pure and tiny API server, on which plans take effect.
type world struct {
	app        *v1.HelloApp
	deployment *appsv1.Deployment
	service    *corev1.Service
	memory     memory
	now        time.Time
	created    int
	said       map[string]int
}

// look is what the controller observes: the watches show what has our label only.
func (w *world) look() observed {
	o := observed{app: w.app.DeepCopy(), memory: w.memory, now: w.now}
	if w.deployment != nil && w.deployment.Labels[controller.LabelManagedBy] == controller.ManagedBy {
		o.deployment = w.deployment.DeepCopy()
	}
	if w.service != nil && w.service.Labels[controller.LabelManagedBy] == controller.ManagedBy {
		o.service = w.service.DeepCopy()
	}
	return o
}

// act is one sync. It returns the steps that had an effect, and when to look again.
func (w *world) act() (effects []string, requeueAfter time.Duration) {
	o := w.look()
	for range 8 {
		p, again := bringUp(o), false
		for _, ask := range p.Asks {
			again = w.do(ask, &o)
		}
		for _, s := range p.Steps {
			if again = w.do(s, &o); again {
				break
			}
			effects = append(effects, s.String())
		}
		if again {
			continue
		}
		mirrored := mirror(o)
		for _, s := range mirrored.Steps {
			w.do(s, &o)
		}
		return append(effects, describe(controller.Plan{Steps: mirrored.Steps})...), controller.EarliestDelay(p.RequeueAfter, mirrored.RequeueAfter)
	}
	return append(effects, "looks again and again"), 0
}

// do reports whether to decide again.
func (w *world) do(s controller.Step, o *observed) (again bool) {
	switch s := s.(type) {
	case decideAgain:
		return true
	case readApp:
		o.app, o.appLive = w.app.DeepCopy(), true
		return true
	case readDeployment:
		o.deployment, o.deploymentLive = w.deployment.DeepCopy(), true
		return true
	case readService:
		o.service, o.serviceLive = w.service.DeepCopy(), true
		return true
	case applyDeployment:
		if s.uid == "" && w.deployment != nil {
			return w.do(readDeployment{}, o)
		}
		w.applyDeployment(s, o)
		w.record(s.events)
	case applyService:
		if s.uid == "" && w.service != nil {
			return w.do(readService{}, o)
		}
		desired := convert[corev1.Service](newService(o.app))
		if w.service == nil {
			w.service = desired
			w.service.UID = w.newUID()
		} else if w.service.UID != s.uid {
			panic("applies to another Service")
		}
		w.service.Labels, w.service.OwnerReferences, w.service.Spec = desired.Labels, desired.OwnerReferences, desired.Spec
		o.service = w.service.DeepCopy()
		w.record(s.events)
	case deleteDeployment:
		if w.deployment.UID != s.uid {
			panic("deletes another Deployment")
		}
		w.deployment, w.memory.deleting[0] = nil, s.uid
		o.deployment, o.deploymentLive = nil, true
	case deleteService:
		if w.service.UID != s.uid {
			panic("deletes another Service")
		}
		w.service, w.memory.deleting[1] = nil, s.uid
	case writeStatus:
		w.app.Status, w.memory.mirrored = *s.status.DeepCopy(), w.now
	case controller.RecordEvent:
		w.record([]controller.RecordEvent{s})
	}
	return false
}

func (w *world) applyDeployment(s applyDeployment, o *observed) {
	desired := convert[appsv1.Deployment](newDeployment(o.app, o.deployment))
	if w.deployment == nil {
		w.deployment = desired
		w.deployment.UID = w.newUID()
	} else if w.deployment.UID != s.uid {
		panic("applies to another Deployment")
	}
	maps.Copy(w.deployment.Labels, desired.Labels)
	if w.deployment.Annotations == nil {
		w.deployment.Annotations = map[string]string{}
	}
	maps.Copy(w.deployment.Annotations, desired.Annotations)
	w.deployment.OwnerReferences, w.deployment.Spec = desired.OwnerReferences, desired.Spec
	w.deployment.Generation++
	o.deployment = w.deployment.DeepCopy()
}

func (w *world) newUID() types.UID {
	w.created++
	return types.UID(fmt.Sprintf("uid-created-%d", w.created))
}

func (w *world) record(events []controller.RecordEvent) {
	for _, event := range events {
		w.said[event.String()]++
	}
}

// worlds are all combinations of what may be there.
func worlds() map[string]func() *world {
	specs := map[string]appOption{
		"size and image": func(*v1.HelloApp) {}, "a port": withPort(80), "no image": withoutAnImage,
		"no image and a port": func(app *v1.HelloApp) { withoutAnImage(app); withPort(80)(app) },
		"an edit":             edited(func(s *v1.HelloAppSpec) { s.Image = "nginx:2" }),
	}
	deployments := map[string][]deploymentOption{
		"no Deployment": nil, "ours": {}, "ours, rolled out": {rolledOut}, "ours, changed": {func(d *appsv1.Deployment) { *d.Spec.Replicas = 9 }},
		"ours without our label": {deployed(unlabelled)}, "ours, terminating": {deployed(terminating)}, "the old operator's": {ofTheOldOperator},
		"an orphan": {deployed(orphaned)}, "an orphan without our label": {deployed(notOurs)}, "an earlier app's": {deployed(ofAnEarlierApp)},
		"an earlier app's without our label": {deployed(ofAnEarlierApp), deployed(unlabelled)}, "a foreign one": {deployed(ofAnotherOwner)},
		"a foreign one without our label": {deployed(ofAnotherOwner), deployed(unlabelled)}, "a later generation's": {func(d *appsv1.Deployment) { d.Annotations[AnnotationGeneration] = "9" }},
	}
	services := map[string][]func(v *corev1.Service){
		"no Service": nil, "our Service": {}, "our Service, changed": {func(s *corev1.Service) { s.Spec.Selector = nil }},
		"our Service without our label": {func(s *corev1.Service) { unlabelled(s) }}, "an orphaned Service": {func(s *corev1.Service) { orphaned(s) }},
		"a foreign Service": {func(s *corev1.Service) { notOurs(s) }}, "a Service that terminates": {func(s *corev1.Service) { terminating(s) }},
	}
	statuses := map[string]appOption{
		"new": func(*v1.HelloApp) {}, "in conflict": withCondition("Conflict", "True", "ErrResourceExists", "so it was"),
		"refused": withCondition("Ready", "False", "Forbidden", "quota"), "invalid": withCondition("Ready", "False", "Invalid", "no such name"),
		"ready": func(app *v1.HelloApp) { mirroring(deploymentOf(newApp(), rolledOut), nil)(app) },
	}
	all := map[string]func() *world{}
	for specName, spec := range specs {
		for deploymentName, deploymentOptions := range deployments {
			for serviceName, serviceChanges := range services {
				for statusName, status := range statuses {
					all[specName+", "+deploymentName+", "+serviceName+", "+statusName] = func() *world {
						w := &world{app: newApp(status, spec), now: noon, said: map[string]int{}}
						if deploymentOptions != nil {
							w.deployment = deploymentOf(newApp(withPort(w.app.Spec.Port)), deploymentOptions...)
						}
						if serviceChanges != nil {
							w.service = serviceOf(newApp(withPort(80)))
							for _, change := range serviceChanges {
								change(w.service)
							}
						}
						return w
					}
				}
			}
		}
	}
	return all
}

// Deciding again after a plan was applied gives the remaining steps, never the same steps again: from every state the
// controller comes to rest, no event is sent twice, what is not ours is not touched, and what the spec asks for exists.
func TestFromEveryStateThePlansComeToRest(t *testing.T) {
	for name, build := range worlds() {
		w := build()
		deployment, service := w.deployment.DeepCopy(), w.service.DeepCopy()
		var path []string
		for round := 0; ; round++ {
			effects, _ := w.act()
			path = append(path, effects...)
			if len(effects) == 0 {
				break
			}
			if round == 3 {
				t.Errorf("%s: no rest after %d rounds:\n%q", name, round, path)
				break
			}
			w.now = w.now.Add(settleTime) // all that was put off is due
		}
		if ownershipOf(w.app, deployment) == controller.Foreign && !cmp.Equal(deployment, w.deployment) {
			t.Errorf("%s: the foreign Deployment was touched", name)
		}
		if ownershipOf(w.app, service) == controller.Foreign && !cmp.Equal(service, w.service) {
			t.Errorf("%s: the foreign Service was touched", name)
		}
		for said, times := range w.said {
			if times > 1 {
				t.Errorf("%s: said %d times: %s", name, times, said)
			}
		}
		if complaint := w.complaint(); complaint != "" {
			t.Errorf("%s: %s", name, complaint)
		}
		for _, later := range []time.Duration{settleTime, 24 * time.Hour} {
			w.now = w.now.Add(later)
			if effects, _ := w.act(); len(effects) > 0 {
				t.Errorf("%s: at rest, %s later, it does %q", name, later, effects)
			}
		}
	}
}

// complaint returns what differs from the spec, unless something is in the way or the API server has refused.
func (w *world) complaint() string {
	ownership := ownershipOf(w.app, w.deployment)
	switch {
	case w.app.Spec.Image == "":
		if ownership == controller.Owned {
			return "there is a Deployment without an image"
		}
		return ""
	case ownership == controller.Foreign || ownership == controller.Terminating:
		return ""
	case ownership != controller.Owned || len(drift(newDeployment(w.app, w.deployment), w.deployment)) > 0:
		return fmt.Sprintf("the Deployment is %+v", w.deployment)
	}
	switch ownership := ownershipOf(w.app, w.service); {
	case w.app.Spec.Port == 0:
		if ownership == controller.Owned && w.service.Labels[controller.LabelManagedBy] != "" {
			return "there is a Service without a port"
		}
	case ownership == controller.None || ownership == controller.Orphaned || ownership == controller.Owned && len(drift(newService(w.app), w.service)) > 0:
		return fmt.Sprintf("the Service is %+v", w.service)
	}
	return ""
}
