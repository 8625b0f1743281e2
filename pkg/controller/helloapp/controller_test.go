// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/fakeapi"
)

const (
	isStarting   = "status: generation 1, Deployment x 0/0/0/0, Ready=False Progressing"
	isReady      = "status: generation 1, Deployment x 2/2/2/2, Ready=True Available, Available=True MinimumReplicasAvailable, Progressing=True NewReplicaSetAvailable"
	saysCreated  = `event Normal Created "Created Deployment x with image nginx:1 and size 2"`
	isEdited     = "status: generation 2, Deployment x 2/2/2/2, Ready=False Progressing, Available=True MinimumReplicasAvailable, Progressing=True NewReplicaSetAvailable"
	isReadyAgain = "status: generation 2, Deployment x 2/2/2/2, Ready=True Available, Available=True MinimumReplicasAvailable, Progressing=True NewReplicaSetAvailable"
)

func TestAColdStartTakesFourRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		a.wants("at first", "create deployments", isStarting, saysCreated)
		a.deploymentBecomes(counts(1, 2, 2, 0))
		a.deploymentBecomes(counts(1, 2, 2, 1))
		a.wants("on the way")
		a.deploymentBecomes(rolledOut)
		a.wants("once it is rolled out", isReady)
		time.Sleep(time.Hour)
		a.wants("at rest")
	})
}

func TestWithAPortItTakesOneMore(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		a.wants("at first", "create deployments", "create services", isStarting, saysCreated)
		a.deploymentBecomes(rolledOut)
		time.Sleep(time.Hour)
		a.wants("once it is rolled out", isReady)
	}, withPort(80))
}

func TestASlowRolloutIsShownOnceInASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		a.took()
		begin := time.Now()
		for i := range int32(100) {
			a.deploymentBecomes(counts(1, 100, i, 0))
			time.Sleep(50 * time.Millisecond)
		}
		if writes, seconds := len(a.took()), int(time.Since(begin).Seconds()); writes < seconds-1 || writes > seconds+1 {
			t.Errorf("%d status writes in %d seconds", writes, seconds)
		}
		time.Sleep(time.Hour)
		a.took()
		if got := a.app().Status.UpdatedReplicas; got != 99 {
			t.Errorf("in the end it shows %d updated Pods, want 99", got)
		}
	}, func(app *v1.HelloApp) { app.Spec.Size = 100 })
}

func TestEditIsAppliedAndReported(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.HelloAppSpec)
		event  string
	}{
		"size":       {func(s *v1.HelloAppSpec) { s.Size = 3 }, `event Normal Scaled "Scaled from 2 to 3"`},
		"image":      {func(s *v1.HelloAppSpec) { s.Image = "nginx:2" }, `event Normal Updated "Updated the image from nginx:1 to nginx:2"`},
		"a variable": {func(s *v1.HelloAppSpec) { s.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }, `event Normal Updated "Updated: the spec has changed"`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				coldStart(a)
				uid := a.deployment().UID
				a.edit(tc.change)
				a.wants("at the edit", "apply deployments", isEdited, tc.event)
				a.deploymentBecomes(rolledOut)
				time.Sleep(time.Hour)
				if lines := a.took(); len(lines) != 1 {
					t.Errorf("once it is rolled out: %q, want one status", lines)
				}
				if d := a.deployment(); d.UID != uid || len(drift(newDeployment(a.app(), d), d)) > 0 {
					t.Errorf("the Deployment is not what the app says: %+v", d.Spec)
				}
			})
		})
	}
}

func TestRemovedVariable(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Env = s.Env[:1] })
		a.wants("at the edit", "apply deployments", isEdited, `event Normal Updated "Updated: the spec has changed"`)
		if env := a.deployment().Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "A" {
			t.Errorf("the Deployment has the variables %v, want A", env)
		}
	}, func(app *v1.HelloApp) { app.Spec.Env = []corev1.EnvVar{{Name: "A"}, {Name: "B"}} })
}

func TestAnEditOfWhatDoesNotCountIsOneStatusWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Name = "old" })
		time.Sleep(time.Hour)
		a.wants("at the edit", isReadyAgain)
	})
}

func TestDriftIsRestored(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.deploymentBecomes(func(d *appsv1.Deployment) {
			d.Annotations["note"] = "mine"
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "envoy"})
		})
		time.Sleep(time.Minute)
		for _, line := range a.took() {
			if line == "apply deployments" {
				t.Error("a sidecar is taken for drift")
			}
		}
		a.deploymentBecomes(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) })
		lines := a.took()
		if len(lines) < 2 || lines[0] != "apply deployments" || lines[len(lines)-1] != `event Normal DriftRestored "Restored Deployment x, which differed in spec.replicas"` {
			t.Errorf("at the drift: %q", lines)
		}
		d := a.deployment()
		if *d.Spec.Replicas != 2 || d.Annotations["note"] != "mine" || len(d.Spec.Template.Spec.Containers) != 2 {
			t.Errorf("the Deployment has %d replicas, annotations %v and %d containers", *d.Spec.Replicas, d.Annotations, len(d.Spec.Template.Spec.Containers))
		}
	})
}

func TestDeletedDeploymentIsCreatedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.deploymentGoes()
		a.wants("at the deletion", "get helloapps", "create deployments", isStarting, `event again "Created Deployment x with image nginx:1 and size 2"`)
	})
}

func TestARestartOfTheOperatorTouchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		a.operate()
		time.Sleep(time.Hour)
		a.wants("of another process")
	}, withPort(80))
}

func TestAStrippedLabelIsPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		uid := a.deployment().UID
		a.deploymentBecomes(deployed(unlabelled))
		a.wants("when it is stripped", "get helloapps", "create deployments", "get deployments", "apply deployments",
			`event Normal DriftRestored "Restored Deployment x, which differed in metadata.labels.app.kubernetes.io/managed-by"`)
		if d := a.deployment(); d.UID != uid || d.Labels[controller.LabelManagedBy] != controller.ManagedBy {
			t.Errorf("the Deployment is %s with labels %v", d.UID, d.Labels)
		}
	})
}

func TestWithoutAnImageThereIsNoDeployment(t *testing.T) {
	const isNotSet = "status: generation 2, Ready=False ImageNotSet"
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "" })
		time.Sleep(time.Hour)
		a.wants("when it is removed", "delete deployments if it is uid-deployment-1", isNotSet,
			`event Warning ImageNotSet "spec.image is empty: there is nothing to run"`)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "nginx:1" })
		a.wants("when it is back", "create deployments", "status: generation 3, Deployment x 0/0/0/0, Ready=False Progressing", `event again "Created Deployment x with image nginx:1 and size 2"`)
	})
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop, _ := a.operate()
		a.wants("from the start", "get deployments", "status: generation 1, Ready=False ImageNotSet",
			`event Warning ImageNotSet "spec.image is empty: there is nothing to run"`)
		stop()
		a.operate()
		time.Sleep(time.Hour)
		a.wants("of another process")
	}, withoutAnImage)
}

func TestUnseenDeletionIsNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.Freeze(fakeapi.Services.GroupVersionResource)
		a.edit(func(s *v1.HelloAppSpec) { s.Port = 0 })
		a.wants("when the port is removed", "apply deployments", "delete services if it is uid-service-2", isEdited, `event Normal Updated "Updated: the spec has changed"`)
		a.Freeze(deployments.GroupVersionResource)
		a.edit(func(s *v1.HelloAppSpec) { s.Image = "" })
		a.wants("when the image is removed", "delete deployments if it is uid-deployment-1", "status: generation 3, Ready=False ImageNotSet",
			`event Warning ImageNotSet "spec.image is empty: there is nothing to run"`)
		a.edit(func(s *v1.HelloAppSpec) { s.Name = "old" })
		a.wants("before both are gone", "status: generation 4, Ready=False ImageNotSet")
	}, withPort(80))
}

func TestAPortThatIsRemovedTakesTheServiceWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(s *v1.HelloAppSpec) { s.Port = 0 })
		a.wants("at the edit", "apply deployments", "delete services if it is uid-service-2", isEdited, `event Normal Updated "Updated: the spec has changed"`)
		if service := a.service(); service != nil {
			t.Errorf("there is %+v", service)
		}
		if ports := a.deployment().Spec.Template.Spec.Containers[0].Ports; len(ports) > 0 {
			t.Errorf("the container has the ports %v", ports)
		}
	}, withPort(80))
}

func TestAServiceThatIsChangedOrDeletedIsRestored(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.serviceBecomes(func(s *corev1.Service) { s.Spec.Selector = nil })
		a.wants("when it is changed", "apply services", `event Normal DriftRestored "Restored Service x, which differed in spec.selector"`)
		a.serviceGoes()
		a.wants("when it is deleted", "get helloapps", "create services", `event Normal Created "Created Service x"`)
	}, withPort(80))
}

func TestDeletedAppIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.objects.Remove("default", "x")
		synctest.Wait()
		a.deploymentGoes()
		time.Sleep(time.Hour)
		a.wants("once it is gone")
	})
}
