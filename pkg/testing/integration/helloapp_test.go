// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/testing/patience"
)

func TestHelloApp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*env){
		"two fields":         twoFieldsMakePods,
		"scale":              appIsScaled,
		"autoscale":          appIsAutoscaled,
		"image":              appImageChange,
		"variable removed":   appVariableRemoved,
		"port":               appPort,
		"drift":              appDrift,
		"Deployment deleted": appDeploymentDeleted,
		"foreign Service":    appForeignService,
		"orphan adopted":     appOrphan,
		"old Deployment":     appOldDeployment,
		"no image":           appWithoutImage,
		"rollout stuck":      appDeadline,
		"quota exceeded":     appQuota,
		"invalid Deployment": appInvalid,
		"size 0":             appSizeZero,
		"deletion":           appDeletion,
		"namespace deletion": appNamespaceDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			test(inCore(t))
		})
	}
	for name, foreign := range map[string]*appsv1.Deployment{
		"foreign Deployment": newDeployment("web", map[string]string{"app": "theirs"}, "theirs"),
		"foreign Deployment with our values": newDeployment("web",
			map[string]string{"app.kubernetes.io/name": "helloapp", "app.kubernetes.io/instance": "web"}, "web"),
	} {
		t.Run(name, func(t *testing.T) {
			appForeignDeployment(inCore(t), foreign)
		})
	}
}

// newDeployment returns a Deployment without an owner.
func newDeployment(name string, selector map[string]string, container string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "nginx:latest"}}},
			},
		},
	}
}

func twoFieldsMakePods(e *env) {
	e.createApp(helloApp("web", 2))
	e.kubectl("wait", "--for=condition=Ready", "ha/web", patience.Timeout)
	e.kubectl("rollout", "status", "deployment/web", patience.Timeout)
	_, deployment := e.awaitApp("web", 2)
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Name != "web" || containers[0].Image != "nginx:latest" {
		e.Errorf("containers of the Deployment: got %+v, want web with nginx:latest", containers)
	}
	e.awaitAppEvent("web", "Created", "Created Deployment web with image nginx:latest and size 2")
	all := e.kubectl("get", "all")
	for _, part := range []string{"helloapp.apps.anupam.com/web", "deployment.apps/web", "replicaset.apps/web-", "pod/web-"} {
		if !strings.Contains(all, part) {
			e.Errorf("kubectl get all does not show %s:\n%s", part, all)
		}
	}
	if got := strings.Fields(e.kubectl("get", "HelloApp", "--no-headers")); len(got) != 5 || strings.Join(got[:4], " ") != "web 2 2 nginx:latest" {
		e.Errorf("kubectl get HelloApp: got %q", got)
	}
	header := strings.Fields(strings.SplitN(e.kubectl("get", "ha", "-o", "wide"), "\n", 2)[0])
	if got, want := strings.Join(header, " "), "NAME SIZE READY IMAGE AGE AVAILABLE REASON"; got != want {
		e.Errorf("columns of kubectl get ha -o wide: got %q, want %q", got, want)
	}
	if described := e.kubectl("describe", "ha", "web"); !strings.Contains(described, "Created Deployment web") {
		e.Errorf("kubectl describe does not show the start:\n%s", described)
	}
}

func appIsScaled(e *env) {
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	e.kubectl("scale", "ha/web", "--replicas=3")
	e.awaitApp("web", 3)
	e.awaitAppEvent("web", "Scaled", "Scaled from 1 to 3")
	got := e.kubectl("get", "ha", "web", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")
	if want := "3 3 app.kubernetes.io/instance=web,app.kubernetes.io/name=helloapp"; got != want {
		e.Errorf("scale: got %s, want %s", got, want)
	}
}

func appIsAutoscaled(e *env) {
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	_, err := e.kube.AutoscalingV2().HorizontalPodAutoscalers(e.namespace).Create(e.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps.anupam.com/v1", Kind: "HelloApp", Name: "web"},
			MinReplicas:    ptr.To[int32](3), MaxReplicas: 5,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	if app, _ := e.awaitApp("web", 3); app.Spec.Size != 3 {
		e.Errorf("got size %d, want 3", app.Spec.Size)
	}
}

func appImageChange(e *env) {
	e.createApp(helloApp("web", 2))
	_, before := e.awaitApp("web", 2)
	old := e.podUIDs("web")
	e.patchApp("web", `{"spec":{"image":"nginx:1.29"}}`)
	_, after := e.awaitApp("web", 2)
	if before.UID != after.UID || after.Spec.Template.Spec.Containers[0].Image != "nginx:1.29" {
		e.Errorf("got image %s in Deployment %s, want nginx:1.29 in %s", after.Spec.Template.Spec.Containers[0].Image, after.UID, before.UID)
	}
	e.awaitAppEvent("web", "Updated", "Updated the image from nginx:latest to nginx:1.29")
	e.eventually(func() string {
		for uid := range e.podUIDs("web") {
			if old[uid] {
				return "an old Pod still runs"
			}
		}
		return ""
	})
}

func appVariableRemoved(e *env) {
	e.createApp(helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Env = []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}} }))
	e.awaitApp("web", 1)
	e.patchApp("web", `{"spec":{"env":[{"name":"B","value":"b"}]}}`)
	e.awaitApp("web", 1)
	e.eventually(func() string {
		if env := e.deployment("web").Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "B" {
			return fmt.Sprintf("variables of the Deployment: got %v, want B", env)
		}
		return ""
	})
	e.awaitAppEvent("web", "Updated", "Updated: the spec has changed")
}

func appPort(e *env) {
	e.createApp(helloApp("web", 2, func(s *v1.HelloAppSpec) { s.Port = 8080 }))
	app, _ := e.awaitApp("web", 2)
	service := e.service("web")
	if service == nil || !metav1.IsControlledBy(service, app) || len(service.Spec.Ports) != 1 {
		e.Fatalf("got Service %+v, want one of the HelloApp with one port", service)
	}
	if port := service.Spec.Ports[0]; port.Port != 8080 || port.TargetPort.IntValue() != 8080 {
		e.Fatalf("got port %+v, want 8080", port)
	}
	e.eventually(func() string {
		slices, err := e.kube.DiscoveryV1().EndpointSlices(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err != nil || len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 2 || *slices.Items[0].Ports[0].Port != 8080 {
			return "the Service does not have two endpoints"
		}
		return ""
	})
	e.patchApp("web", `{"spec":{"port":9090}}`)
	e.eventually(func() string {
		if got := e.service("web"); got.UID != service.UID || len(got.Spec.Ports) != 1 || got.Spec.Ports[0].Port != 9090 {
			return "the Service does not have the new port"
		}
		return ""
	})
	e.patchApp("web", `{"spec":{"port":null}}`)
	e.eventually(func() string {
		if e.service("web") != nil {
			return "the Service still exists"
		}
		return ""
	})
	if _, deployment := e.awaitApp("web", 2); len(deployment.Spec.Template.Spec.Containers[0].Ports) != 0 {
		e.Errorf("got ports %v of the container, want none", deployment.Spec.Template.Spec.Containers[0].Ports)
	}
}

func appDrift(e *env) {
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	e.patchDeployment("web", `{"metadata":{"annotations":{"note":"mine"}},"spec":{"replicas":4,
  "template":{"spec":{"containers":[{"name":"web","image":"other"},{"name":"proxy","image":"envoy"}]}}}}`)
	e.awaitAppEvent("web", "DriftRestored", "Restored Deployment web, which differed in spec.replicas, spec.template.spec.containers[web].image")
	_, deployment := e.awaitApp("web", 1)
	images := map[string]string{}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		images[container.Name] = container.Image
	}
	want := map[string]string{"web": "nginx:latest", "proxy": "envoy"}
	if !maps.Equal(images, want) || *deployment.Spec.Replicas != 1 || deployment.Annotations["note"] != "mine" {
		e.Errorf("got %d replicas of %v with annotations %v, want 1 of %v with the note", *deployment.Spec.Replicas, images, deployment.Annotations, want)
	}
}

func appDeploymentDeleted(e *env) {
	e.createApp(helloApp("web", 1))
	_, first := e.awaitApp("web", 1)
	e.kubectl("delete", "deployment", "web")
	e.eventually(func() string {
		if second := e.deployment("web"); second == nil || second.UID == first.UID {
			return "the Deployment was not created again"
		}
		return ""
	})
	e.awaitApp("web", 1)
}

func appForeignDeployment(e *env, theirs *appsv1.Deployment) {
	foreign := e.createDeployment(theirs)
	e.createApp(helloApp("web", 1))
	const message = `Deployment "web" already exists and is not managed by this HelloApp`
	if got := e.awaitAppCondition("web", v1.ConditionConflict, metav1.ConditionTrue, "ErrResourceExists"); got != message {
		e.Errorf("message of the condition: got %q, want %q", got, message)
	}
	e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, v1.ReasonConflict)
	e.awaitAppEvent("web", "ErrResourceExists", message)
	now := e.deployment("web")
	if now == nil || now.UID != foreign.UID || now.Generation != foreign.Generation || len(now.OwnerReferences)+len(now.Labels) > 0 {
		e.Errorf("the foreign Deployment was touched: %+v", now)
	}
	for _, field := range now.ManagedFields {
		if strings.HasPrefix(field.Manager, "millwright") {
			e.Errorf("%s manages fields of the foreign Deployment", field.Manager)
		}
	}
	e.kubectl("delete", "deployment", "web")
	e.awaitApp("web", 1)
	e.awaitAppCondition("web", v1.ConditionConflict, metav1.ConditionFalse, "Resolved")
	events := slices.DeleteFunc(e.appEvents("web"), func(event corev1.Event) bool { return event.Type != corev1.EventTypeWarning })
	if len(events) != 1 || events[0].Count > 1 {
		e.Errorf("got warnings %v of the conflict, want one", events)
	}
}

func appDeletion(e *env) {
	e.createApp(helloApp("web", 2, func(s *v1.HelloAppSpec) { s.Port = 80 }))
	e.awaitApp("web", 2)
	e.kubectl("delete", "ha", "web")
	e.eventually(func() string {
		if left := e.kubectl("get", "all", "-o", "name"); left != "" {
			return "objects that still exist: " + left
		}
		return ""
	})
}

func appNamespaceDeletion(e *env) {
	e.createApp(helloApp("web", 2, func(s *v1.HelloAppSpec) { s.Port = 80 }))
	e.awaitApp("web", 2)
	e.deleteNamespace()
}
