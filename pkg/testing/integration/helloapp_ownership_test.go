// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "millwright.dev/pkg/apis/apps/v1"
)

// HelloApps with foreign objects, orphans, and failures.

func appForeignService(e *env) {
	foreign, err := e.kube.CoreV1().Services(e.namespace).Create(e.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "theirs", Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.createApp(helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Port = 80 }))
	e.awaitApp("web", 1)
	const message = `Service "web" already exists and is not managed by this HelloApp`
	if got := e.awaitAppCondition("web", v1.ConditionConflict, metav1.ConditionTrue, "ErrResourceExists"); got != message {
		e.Errorf("message of the condition: got %q, want %q", got, message)
	}
	e.awaitAppEvent("web", "ErrResourceExists", message)
	if now := e.service("web"); now.ResourceVersion != foreign.ResourceVersion {
		e.Errorf("the foreign Service was touched: %+v", now)
	}
	e.kubectl("delete", "service", "web")
	e.eventually(func() string {
		if service := e.service("web"); service == nil || !metav1.IsControlledBy(service, e.app("web")) {
			return "the Service was not created"
		}
		return ""
	})
	e.awaitAppCondition("web", v1.ConditionConflict, metav1.ConditionFalse, "Resolved")
}

func appOrphan(e *env) {
	withPort := func(s *v1.HelloAppSpec) { s.Port = 80 }
	e.createApp(helloApp("web", 2, withPort))
	_, before := e.awaitApp("web", 2)
	pods, service := e.podUIDs("web"), e.service("web")
	e.kubectl("delete", "ha", "web", "--cascade=orphan")
	if orphan := e.deployment("web"); orphan == nil || len(orphan.OwnerReferences) > 0 {
		e.Fatalf("got Deployment %+v, want an orphan", orphan)
	}
	e.createApp(helloApp("web", 2, withPort))
	e.awaitAppEvent("web", "Adopted", "Adopted Deployment web")
	_, after := e.awaitApp("web", 2)
	if before.UID != after.UID || before.Generation != after.Generation {
		e.Errorf("adopted Deployment: got %s of generation %d, want %s of %d", after.UID, after.Generation, before.UID, before.Generation)
	}
	now := e.podUIDs("web")
	for uid := range pods {
		if !now[uid] {
			e.Error("a Pod was replaced")
		}
	}
	e.eventually(func() string {
		if adopted := e.service("web"); adopted.UID != service.UID || !metav1.IsControlledBy(adopted, e.app("web")) {
			return "the Service was not adopted"
		}
		return ""
	})
}

func appOldDeployment(e *env) {
	// Without an image the controller does not create a Deployment before the test creates the old one.
	app := e.createApp(helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Image = "" }))
	e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, v1.ReasonImageNotSet)
	old := newDeployment("web", map[string]string{"app": "mock-containers"}, "web")
	old.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(app, schema.GroupVersion(v1.GroupVersion).WithKind("HelloApp"))}
	old = e.createDeployment(old)
	e.patchApp("web", `{"spec":{"image":"nginx:1.29","size":2,"port":80}}`)
	_, deployment := e.awaitApp("web", 2)
	if got := deployment.Spec.Selector.MatchLabels; deployment.UID != old.UID || len(got) != 1 || got["app"] != "mock-containers" {
		e.Errorf("got selector %v of Deployment %s, want that of the old one", got, deployment.UID)
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Image != "nginx:1.29" {
		e.Errorf("got containers %+v, want the new image", containers)
	}
	if got := e.service("web").Spec.Selector["app.kubernetes.io/instance"]; got != "web" {
		e.Errorf("selector of the Service: got %v, want the Pods of web only", e.service("web").Spec.Selector)
	}
	e.awaitAppEvent("web", "Adopted", "Adopted Deployment web")
}

func appWithoutImage(e *env) {
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	e.patchApp("web", `{"spec":{"image":null}}`)
	e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, v1.ReasonImageNotSet)
	e.awaitAppEvent("web", "ImageNotSet", "spec.image is empty: there is nothing to run")
	e.eventually(func() string {
		if e.deployment("web") != nil || len(e.podUIDs("web")) > 0 {
			return "the Deployment or a Pod still exists"
		}
		return ""
	})
	if status := e.app("web").Status; status.DeploymentName != "" || status.Replicas != 0 {
		e.Errorf("got status %+v, want no Deployment and no replicas", status)
	}
	e.patchApp("web", `{"spec":{"image":"nginx:1.29"}}`)
	e.awaitApp("web", 1)
}

func appDeadline(e *env) {
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	e.patchDeployment("web", `{"spec":{"progressDeadlineSeconds":2,"template":{"metadata":{"annotations":{"`+neverReady+`":"true"}}}}}`)
	for _, condition := range []string{v1.ConditionReady, v1.ConditionProgressing} {
		if message := e.awaitAppCondition("web", condition, metav1.ConditionFalse, "ProgressDeadlineExceeded"); !strings.Contains(message, "has timed out progressing") {
			e.Errorf("message of the condition %s: got %q, want the timeout in it", condition, message)
		}
	}
	e.awaitAppCondition("web", v1.ConditionAvailable, metav1.ConditionTrue, "MinimumReplicasAvailable")
}

func appQuota(e *env) {
	_, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Create(e.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("0"), "count/deployments.apps": resource.MustParse("1"), "count/services": resource.MustParse("0"),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string { // a quota refuses everything until its usage is counted
		quota, err := e.kube.CoreV1().ResourceQuotas(e.namespace).Get(e.Context(), "none", metav1.GetOptions{})
		if err != nil || quota.Status.Hard == nil {
			return "the quota is not counted yet"
		}
		return ""
	})
	e.createApp(helloApp("web", 1))
	if message := e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, "FailedCreate"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	e.createApp(helloApp("shop", 1))
	if message := e.awaitAppCondition("shop", v1.ConditionReady, metav1.ConditionFalse, "Forbidden"); !strings.Contains(message, "exceeded quota: none") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	e.kubectl("delete", "resourcequota", "none")
	e.awaitApp("shop", 1)
	e.awaitApp("web", 1)
}

func appInvalid(e *env) {
	e.createApp(helloApp("web", 1, func(s *v1.HelloAppSpec) {
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}}
		s.ServiceAccountName = "Not A Name"
	}))
	if message := e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, "Invalid"); !strings.Contains(message, "Not A Name") {
		e.Errorf("message of the condition: got %q, want the error of the API server in it", message)
	}
	if e.deployment("web") != nil {
		e.Error("an invalid Deployment was created")
	}
	e.patchApp("web", `{"spec":{"serviceAccountName":null}}`)
	e.awaitApp("web", 1)
	e.patchApp("web", `{"spec":{"resources":{"limits":{"cpu":1},"requests":{"cpu":2}}}}`)
	e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, "Invalid")
	if app := e.app("web"); app.Status.AvailableReplicas != 1 {
		e.Errorf("the old Pod does not run any more: %s", describeApp(app))
	}
	e.patchApp("web", `{"spec":{"resources":null}}`)
	e.awaitApp("web", 1)
	warnings := 0
	for _, event := range e.appEvents("web") {
		if event.Type == corev1.EventTypeWarning {
			warnings += int(event.Count)
		}
	}
	if warnings != 2 {
		e.Errorf("got %d warnings, want 2", warnings)
	}
}

func appSizeZero(e *env) {
	e.createApp(helloApp("web", 0))
	e.awaitApp("web", 0)
	e.kubectl("scale", "ha/web", "--replicas=1")
	e.awaitApp("web", 1)
	e.kubectl("scale", "ha/web", "--replicas=0")
	e.awaitApp("web", 0)
}
