// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
)

const (
	createsDeployment = `create Deployment, event Normal Created "Created Deployment x with image nginx:1 and size 2"`
	againIn10s        = "again after 10s"
)

func TestWhatIsDoneAboutTheDeployment(t *testing.T) {
	conflict := withCondition("Conflict", "True", "ErrResourceExists", "")
	for name, tc := range map[string]struct {
		app        appOption
		deployment *appsv1.Deployment
		live       bool
		appLive    bool
		want       []string
	}{
		"there is none: it is created, without a look": {want: []string{createsDeployment}},
		"there is none, says the API server":           {live: true, want: []string{createsDeployment}},
		"it has gone, maybe with the app":              {app: func(app *v1.HelloApp) { mirroring(deploymentOf(newApp()), nil)(app) }, want: []string{"read the live HelloApp"}},
		"it has gone, and the app is there":            {app: func(app *v1.HelloApp) { mirroring(deploymentOf(newApp()), nil)(app) }, appLive: true, want: []string{createsDeployment}},
		"it is as it should be":                        {deployment: deploymentOf(newApp(), defaulted), want: []string{}},
		"the app is being deleted":                     {app: func(app *v1.HelloApp) { terminating(app) }, want: []string{}},

		"its replicas were changed by a user": {deployment: deploymentOf(newApp(), func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) }),
			want: []string{`apply Deployment uid-deployment, event Normal DriftRestored "Restored Deployment x, which differed in spec.replicas"`}},
		"the size was edited": {app: edited(func(s *v1.HelloAppSpec) { s.Size = 5 }), deployment: deploymentOf(newApp()),
			want: []string{`apply Deployment uid-deployment, event Normal Scaled "Scaled from 2 to 5"`}},
		"the image was edited": {app: edited(func(s *v1.HelloAppSpec) { s.Image = "nginx:2" }), deployment: deploymentOf(newApp()),
			want: []string{`apply Deployment uid-deployment, event Normal Updated "Updated the image from nginx:1 to nginx:2"`}},
		"both were edited": {app: edited(func(s *v1.HelloAppSpec) { s.Size, s.Image = 0, "nginx:2" }), deployment: deploymentOf(newApp()),
			want: []string{`apply Deployment uid-deployment, event Normal Scaled "Scaled from 2 to 0", event Normal Updated "Updated the image from nginx:1 to nginx:2"`}},
		"a variable was removed, which a look at the fields alone would not show": {
			app:        edited(func(*v1.HelloAppSpec) {}),
			deployment: deploymentOf(newApp(func(app *v1.HelloApp) { app.Spec.Env = []corev1.EnvVar{{Name: "A"}} })),
			want:       []string{`apply Deployment uid-deployment, event Normal Updated "Updated: the spec has changed"`}},
		"what does not count was edited": {app: edited(func(s *v1.HelloAppSpec) { s.Name = "old" }), deployment: deploymentOf(newApp()), want: []string{}},

		"an orphan with our mark, which this deletion may have made": {deployment: deploymentOf(newApp(), deployed(orphaned)), want: []string{"read the live HelloApp"}},
		"an orphan with our mark": {deployment: deploymentOf(newApp(), deployed(orphaned)), appLive: true,
			want: []string{`apply Deployment uid-deployment, event Normal Adopted "Adopted Deployment x"`}},
		"an orphan with our mark, of another size": {deployment: deploymentOf(newApp(func(app *v1.HelloApp) { app.Spec.Size = 4 }), deployed(orphaned)), appLive: true,
			want: []string{`apply Deployment uid-deployment, event Normal Adopted "Adopted Deployment x", event Normal Scaled "Scaled from 4 to 2"`}},
		"an orphan that terminates":           {deployment: deploymentOf(newApp(), deployed(orphaned), deployed(terminating)), want: []string{againIn10s}},
		"the old operator's":                  {deployment: deploymentOf(newApp(), ofTheOldOperator), live: true, want: []string{`apply Deployment uid-deployment, event Normal Adopted "Adopted Deployment x"`}},
		"ours that has lost its label":        {deployment: deploymentOf(newApp(), deployed(unlabelled)), live: true, want: []string{`apply Deployment uid-deployment, event Normal DriftRestored "Restored Deployment x, which differed in metadata.labels.app.kubernetes.io/managed-by"`}},
		"ours that terminates":                {deployment: deploymentOf(newApp(), deployed(terminating)), want: []string{againIn10s}},
		"one of an earlier app":               {deployment: deploymentOf(newApp(), deployed(ofAnEarlierApp)), want: []string{againIn10s}},
		"a foreign one with our label":        {deployment: deploymentOf(newApp(), deployed(ofAnotherOwner)), want: []string{againIn10s}},
		"a foreign one without an owner":      {deployment: deploymentOf(newApp(), deployed(notOurs)), live: true, want: []string{againIn10s}},
		"none in the cache, after a conflict": {app: conflict, want: []string{"read the live Deployment"}},
		"none at all, after a conflict":       {app: conflict, live: true, want: []string{createsDeployment}},

		"it was made of a later spec than the cache shows": {
			deployment: deploymentOf(newApp(edited(func(s *v1.HelloAppSpec) { s.Size = 7 }))), want: []string{"read the live HelloApp"}},

		"no image: ours goes":                         {app: withoutAnImage, deployment: deploymentOf(newApp()), want: []string{"delete Deployment uid-deployment"}},
		"no image: ours goes already":                 {app: withoutAnImage, deployment: deploymentOf(newApp(), deployed(terminating)), want: []string{}},
		"no image: an orphan stays":                   {app: withoutAnImage, deployment: deploymentOf(newApp(), deployed(orphaned)), want: []string{}},
		"no image: a foreign one stays":               {app: withoutAnImage, deployment: deploymentOf(newApp(), deployed(ofAnotherOwner)), want: []string{}},
		"no image: what may have lost its label":      {app: withoutAnImage, want: []string{"read the live Deployment"}},
		"no image: nothing there":                     {app: withoutAnImage, live: true, want: []string{}},
		"no image: it is said already":                {app: func(app *v1.HelloApp) { withoutAnImage(app); mirroring(nil, nil)(app) }, want: []string{}},
		"the API server has called this spec invalid": {app: withCondition("Ready", "False", "Invalid", "no such name"), want: []string{createsDeployment}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			if tc.app != nil {
				tc.app(app)
			}
			got := describe(decide(observed{app: app, deployment: tc.deployment, deploymentLive: tc.live, appLive: tc.appLive, now: noon}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsDoneAboutTheService(t *testing.T) {
	withPort80 := newApp(withPort(80))
	conflict := withCondition("Conflict", "True", "ErrResourceExists", "")
	for name, tc := range map[string]struct {
		app     appOption
		service *corev1.Service
		live    bool
		appLive bool
		memory  memory
		want    []string
	}{
		"a port and none: it is created":                          {app: withPort(80), want: []string{`create Service, event Normal Created "Created Service x"`}},
		"a port and the right one":                                {app: withPort(80), service: serviceOf(withPort80), want: []string{}},
		"a port and one that was changed":                         {app: withPort(80), service: serviceOf(newApp(withPort(81))), want: []string{`apply Service uid-service, event Normal DriftRestored "Restored Service x, which differed in spec.ports[80/TCP]"`}},
		"a port and an orphan, which this deletion may have made": {app: withPort(80), service: serviceOf(withPort80, orphaned), want: []string{"read the live HelloApp"}},
		"a port and an orphan": {app: withPort(80), service: serviceOf(withPort80, orphaned), appLive: true,
			want: []string{`apply Service uid-service, event Normal Adopted "Adopted Service x"`}},
		"a port and a foreign one":                              {app: withPort(80), service: serviceOf(withPort80, notOurs), live: true, want: []string{againIn10s}},
		"a port and one that goes":                              {app: withPort(80), service: serviceOf(withPort80, terminating), want: []string{againIn10s}},
		"a port and one of an earlier app":                      {app: withPort(80), service: serviceOf(withPort80, ofAnEarlierApp), want: []string{againIn10s}},
		"a port and none in the cache, after a conflict":        {app: func(app *v1.HelloApp) { withPort(80)(app); conflict(app) }, want: []string{"read the live Service"}},
		"no port and none":                                      {app: withPort(0), want: []string{}},
		"no port and ours":                                      {app: withPort(0), service: serviceOf(withPort80), want: []string{"delete Service uid-service"}},
		"no port and ours, of which the deletion was asked for": {app: withPort(0), service: serviceOf(withPort80), memory: memory{deleting: [2]types.UID{"uid-other", "uid-service"}}, want: []string{}},
		"no port and ours, which goes":                          {app: withPort(0), service: serviceOf(withPort80, terminating), want: []string{}},
		"no port and a foreign one":                             {app: withPort(0), service: serviceOf(withPort80, ofAnotherOwner), want: []string{}},
		"no port and an orphan":                                 {app: withPort(0), service: serviceOf(withPort80, orphaned), want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(tc.app)
			got := describe(decide(observed{app: app, deployment: deploymentOf(app), service: tc.service,
				serviceLive: tc.live, appLive: tc.appLive, memory: tc.memory, now: noon}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreateWithServiceIsOneEvent(t *testing.T) {
	got := describe(decide(observed{app: newApp(withPort(80)), now: noon}))
	if diff := cmp.Diff([]string{createsDeployment, "create Service"}, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// Else it would depend on what was there before whether there is a Service.
func TestServiceFollowsThePort(t *testing.T) {
	const created, deleted = `create Service, event Normal Created "Created Service x"`, "delete Service uid-service"
	inTheWay := deploymentOf(newApp(), deployed(ofAnotherOwner))
	said := func(app *v1.HelloApp) { withoutAnImage(app); mirroring(nil, nil)(app) }
	for name, tc := range map[string]struct {
		app  *v1.HelloApp
		o    observed
		want []string
	}{
		"a port, and a Deployment in the way":  {newApp(withPort(80)), observed{deployment: inTheWay}, []string{created, againIn10s}},
		"no port, and a Deployment in the way": {newApp(), observed{deployment: inTheWay, service: serviceOf(newApp(withPort(80)))}, []string{deleted, againIn10s}},
		"a port, and no image":                 {newApp(withPort(80), said), observed{}, []string{created}},
		"no port, and no image":                {newApp(said), observed{service: serviceOf(newApp(withPort(80)))}, []string{deleted}},
		"neither any more": {newApp(withoutAnImage), observed{deployment: deploymentOf(newApp()), service: serviceOf(newApp(withPort(80)))},
			[]string{"delete Deployment uid-deployment", deleted}},
		"no image, and a Service that is refused": {newApp(withPort(80), said, withCondition("Ready", "False", "Invalid", "")), observed{deploymentLive: true}, []string{created}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.app, tc.o.now = tc.app, noon
			if diff := cmp.Diff(tc.want, describe(decide(tc.o))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASyncInBetweenDoesNotPutOffTheNextLook(t *testing.T) {
	o := observed{app: newApp(), memory: memory{foreignDeployment: noon.Add(-7 * time.Second)}, now: noon}
	if diff := cmp.Diff([]string{"again after 3s"}, describe(decide(o))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}
