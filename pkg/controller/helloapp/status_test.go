// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

func TestReadyIsTrueOnlyOnceAllIsRolledOut(t *testing.T) {
	pastDeadline := reporting("Progressing", "False", "ProgressDeadlineExceeded")
	cannotCreate := reporting("ReplicaFailure", "True", "FailedCreate")
	for name, tc := range map[string]struct {
		size    int32
		options []deploymentOption
		want    string // status, reason and message of Ready
	}{
		"all Pods are new and available": {2, []deploymentOption{counts(1, 2, 2, 2)}, "True Available "},
		"of size 0, there are none":      {0, []deploymentOption{counts(1, 0, 0, 0)}, "True Available "},
		"of size 0, one is left":         {0, []deploymentOption{counts(1, 1, 0, 0)}, "False Progressing 0 of 0 Pods are available, 0 are of the newest version"},
		"just made":                      {2, nil, "False Progressing 0 of 2 Pods are available, 0 are of the newest version"},
		"of size 0, just made":           {0, nil, "False Progressing 0 of 0 Pods are available, 0 are of the newest version"},
		"the newest generation is not seen yet": {2, []deploymentOption{counts(1, 2, 2, 2), func(d *appsv1.Deployment) { d.Generation = 2 }},
			"False Progressing 2 of 2 Pods are available, 2 are of the newest version"},
		"one is not available": {2, []deploymentOption{counts(1, 2, 2, 1)}, "False Progressing 1 of 2 Pods are available, 2 are of the newest version"},
		"one is old":           {2, []deploymentOption{counts(1, 2, 1, 2)}, "False Progressing 2 of 2 Pods are available, 1 are of the newest version"},
		"an old one is left":   {2, []deploymentOption{counts(1, 3, 2, 2)}, "False Progressing 2 of 2 Pods are available, 2 are of the newest version"},
		"more than are wanted": {1, []deploymentOption{counts(1, 2, 2, 2)}, "False Progressing 2 of 1 Pods are available, 2 are of the newest version"},
		"the deadline is past": {2, []deploymentOption{counts(1, 2, 2, 1), pastDeadline}, "False ProgressDeadlineExceeded says the Deployment"},
		"Pods cannot be made":  {2, []deploymentOption{counts(1, 0, 0, 0), cannotCreate}, "False FailedCreate says the Deployment"},
		"neither, and past":    {2, []deploymentOption{counts(1, 0, 0, 0), cannotCreate, pastDeadline}, "False ProgressDeadlineExceeded says the Deployment"},
		"the deadline of the spec before was past": {2, []deploymentOption{counts(1, 2, 2, 1), pastDeadline, func(d *appsv1.Deployment) { d.Generation = 2 }},
			"False Progressing 1 of 2 Pods are available, 2 are of the newest version"},
		"ours is being deleted":   {2, []deploymentOption{counts(1, 2, 2, 2), deployed(terminating)}, "False Progressing Deployment x is being deleted; then it is created again"},
		"an earlier one is there": {2, []deploymentOption{counts(1, 2, 2, 2), deployed(ofAnEarlierApp)}, "False Progressing Deployment x is being deleted; then it is created again"},
		"a foreign one is there":  {2, []deploymentOption{counts(1, 2, 2, 2), deployed(ofAnotherOwner)}, "False Conflict Deployment \"x\" already exists and is not managed by this HelloApp"},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(func(app *v1.HelloApp) { app.Spec.Size = tc.size })
			status := statusOf(observed{app: app, deployment: deploymentOf(app, tc.options...), now: noon})
			ready := meta.FindStatusCondition(status.Conditions, "Ready")
			if got := string(ready.Status) + " " + ready.Reason + " " + ready.Message; got != tc.want {
				t.Errorf("Ready is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheStatusMirrorsTheDeployment(t *testing.T) {
	app := newApp(withPort(80))
	deployment := deploymentOf(app, counts(1, 3, 2, 1), reporting("Available", "False", "MinimumReplicasUnavailable"), reporting("Progressing", "True", "ReplicaSetUpdated"))
	deployment.Status.ReadyReplicas = 2
	status := statusOf(observed{app: app, deployment: deployment, now: noon})
	want := "status: generation 1, Deployment x 3/2/2/1, Ready=False Progressing, Available=False MinimumReplicasUnavailable, Progressing=True ReplicaSetUpdated"
	if got := describeStatus(status); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if want := "app.kubernetes.io/instance=x,app.kubernetes.io/name=helloapp"; status.Selector != want {
		t.Errorf("the selector is %q, want %q", status.Selector, want)
	}
	if c := meta.FindStatusCondition(status.Conditions, "Available"); c.Message != "says the Deployment" || c.ObservedGeneration != 1 || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("Available is %+v", c)
	}
}

func TestConditionsOfADeletedDeploymentAreRemoved(t *testing.T) {
	app := newApp()
	mirroring(deploymentOf(app, rolledOut), nil)(app)
	for name, tc := range map[string]struct {
		app        appOption
		deployment *appsv1.Deployment
		want       string
	}{
		"it is gone":              {func(*v1.HelloApp) {}, nil, "status: generation 1, Ready=False Progressing"},
		"there is no image":       {withoutAnImage, deploymentOf(app, rolledOut), "status: generation 1, Ready=False ImageNotSet"},
		"a foreign one took over": {func(*v1.HelloApp) {}, deploymentOf(app, rolledOut, deployed(ofAnotherOwner)), "status: generation 1, Ready=False Conflict, Conflict=True ErrResourceExists"},
	} {
		t.Run(name, func(t *testing.T) {
			app := app.DeepCopy()
			tc.app(app)
			status := statusOf(observed{app: app, deployment: tc.deployment, now: noon})
			if got := describeStatus(status); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if status.Replicas+status.ReadyReplicas+status.AvailableReplicas+status.UpdatedReplicas != 0 {
				t.Errorf("it still counts Pods: %+v", status)
			}
		})
	}
}

func TestForeignServiceKeepsTheDeployment(t *testing.T) {
	app := newApp(withPort(80))
	status := statusOf(observed{app: app, deployment: deploymentOf(app, rolledOut), service: serviceOf(app, notOurs), now: noon})
	c := meta.FindStatusCondition(status.Conditions, "Conflict")
	if c == nil || c.Status != "True" || c.Reason != "ErrResourceExists" || c.Message != `Service "x" already exists and is not managed by this HelloApp` {
		t.Errorf("Conflict is %+v", c)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, "Ready") {
		t.Error("Ready is not True")
	}
}

func TestProgressIsWrittenOncePerSecond(t *testing.T) {
	app := newApp(withPort(80))
	onItsWay := []deploymentOption{counts(1, 2, 2, 0), reporting("Available", "False", "MinimumReplicasUnavailable"), reporting("Progressing", "True", "ReplicaSetUpdated")}
	with := func(options ...deploymentOption) *appsv1.Deployment {
		return deploymentOf(app, append(append([]deploymentOption{}, onItsWay...), options...)...)
	}
	for name, tc := range map[string]struct {
		before, now *appsv1.Deployment
		change      func(*observed)
		news        bool
	}{
		"counts":                        {before: with(), now: with(counts(1, 2, 2, 1))},
		"the first report of a rollout": {before: deploymentOf(app), now: with()},
		"the text of a condition":       {before: with(), now: with(reporting("Progressing", "True", "NewReplicaSetCreated"))},
		"an edit":                       {before: with(), now: with(), change: func(o *observed) { o.app.Generation++ }, news: true},
		"Ready":                         {before: with(), now: with(rolledOut), news: true},
		"no longer Ready":               {before: with(rolledOut), now: with(), news: true},
		"Available":                     {before: with(), now: with(reporting("Available", "True", "MinimumReplicasAvailable")), news: true},
		"no longer Available":           {before: with(reporting("Available", "True", "MinimumReplicasAvailable")), now: with(), news: true},
		"the deadline":                  {before: with(), now: with(reporting("Progressing", "False", "ProgressDeadlineExceeded")), news: true},
		"a failure":                     {before: with(), now: with(reporting("ReplicaFailure", "True", "FailedCreate")), news: true},
		"a Service in the way":          {before: with(), now: with(), change: func(o *observed) { o.service = serviceOf(app, notOurs) }, news: true},
		"a refusal": {before: with(), now: with(), news: true,
			change: func(o *observed) { o.rejection = &controller.Rejection{Reason: "Forbidden", Message: "quota"} }},
	} {
		t.Run(name, func(t *testing.T) {
			mirrored := newApp(withPort(80))
			mirroring(tc.before, nil)(mirrored)
			for since, want := range map[time.Duration]string{
				300 * time.Millisecond: "again after 700ms",
				time.Second:            "",
				-time.Hour:             "again after 1s", // the clock was set back
			} {
				o := observed{app: mirrored.DeepCopy(), deployment: tc.now, memory: memory{mirrored: noon.Add(-since)}, now: noon}
				if tc.change != nil {
					tc.change(&o)
				}
				got := describe(mirror(o))
				switch {
				case len(got) == 0:
					t.Fatal("no step")
				case tc.news || want == "":
					if !strings.HasPrefix(got[0], "status: ") {
						t.Errorf("%s after the last write: %q, want a write", since, got)
					}
				case got[0] != want:
					t.Errorf("%s after the last write: %q, want %s", since, got, want)
				}
			}
		})
	}
}

func TestWarningsAreGivenOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		o    observed
		want string
	}{
		"no image":             {observed{app: newApp(withoutAnImage)}, `event Warning ImageNotSet "spec.image is empty: there is nothing to run"`},
		"a foreign Deployment": {observed{app: newApp(), deployment: deploymentOf(newApp(), deployed(notOurs))}, `event Warning ErrResourceExists "Deployment \"x\" already exists and is not managed by this HelloApp"`},
		"a foreign Service": {
			observed{app: newApp(withPort(80)), deployment: deploymentOf(newApp(withPort(80))), service: serviceOf(newApp(withPort(80)), notOurs)},
			`event Warning ErrResourceExists "Service \"x\" already exists and is not managed by this HelloApp"`},
		"a refusal":                       {observed{app: newApp(), rejection: &controller.Rejection{Reason: "Invalid", Message: "no such name"}}, `event Warning FailedApply "no such name"`},
		"a refusal with words of its own": {observed{app: newApp(), rejection: &controller.Rejection{Reason: "not a reason!", Message: "no"}}, `event Warning FailedApply "no"`},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.now = noon
			first := mirror(tc.o)
			if got := describe(first); len(got) != 2 || got[1] != tc.want {
				t.Fatalf("got %q, want a status and %s", got, tc.want)
			}
			tc.o.app = tc.o.app.DeepCopy()
			tc.o.app.Status = first.Steps[0].(writeStatus).status
			tc.o.now = noon.Add(time.Hour)
			if got := describe(mirror(tc.o)); len(got) != 0 {
				t.Errorf("a second time: %q", got)
			}
			tc.o.app.Generation++
			if got := describe(mirror(tc.o)); len(got) != 1 {
				t.Errorf("with the next status, for another reason: %q, want no warning", got)
			}
		})
	}
}

func TestResolvedConflict(t *testing.T) {
	app := newApp()
	app.Status = statusOf(observed{app: app, deployment: deploymentOf(app, deployed(notOurs)), now: noon})
	want := "status: generation 1, Deployment x 0/0/0/0, Ready=False Progressing, Conflict=False Resolved"
	if got := describeStatus(statusOf(observed{app: app, deployment: deploymentOf(app), now: noon})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestATransitionHasTheTimeOfTheTransition(t *testing.T) {
	app := newApp()
	ready := func(deployment *appsv1.Deployment, now time.Time) time.Time {
		app.Status = statusOf(observed{app: app, deployment: deployment, now: now})
		return meta.FindStatusCondition(app.Status.Conditions, "Ready").LastTransitionTime.Time
	}
	ready(deploymentOf(app), noon)
	if got := ready(deploymentOf(app, counts(1, 2, 2, 1)), noon.Add(time.Minute)); !got.Equal(noon) {
		t.Errorf("while it stays False it says %s, want %s", got, noon)
	}
	if got, want := ready(deploymentOf(app, rolledOut), noon.Add(time.Hour)), noon.Add(time.Hour); !got.Equal(want) {
		t.Errorf("when it comes True it says %s, want %s", got, want)
	}
}
