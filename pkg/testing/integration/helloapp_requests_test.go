// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// requestsFor counts the requests for objects of the namespace by verb and resource, with events, without LISTs and WATCHes.
func requestsFor(journal *faultproxy.Journal, namespace string) map[string]int {
	counted := map[string]int{}
	for _, entry := range journal.Entries() {
		if entry.Namespace == namespace && entry.Verb != "list" && entry.Verb != "watch" {
			what := entry.Verb + " " + entry.Resource
			if entry.Subresource != "" {
				what += "/" + entry.Subresource
			}
			counted[what]++
		}
	}
	return counted
}

func TestHelloAppRequests(t *testing.T) {
	cluster := testcluster.Shared(t)
	for _, size := range []int32{1, 10} {
		t.Run(fmt.Sprintf("size %d", size), func(t *testing.T) {
			e := newEnv(t, cluster)
			var journal faultproxy.Journal
			stop := runHelloApps(e, &journal)
			begin := time.Now()
			e.createApp(helloApp("web", size))
			e.awaitApp("web", size)
			took := time.Since(begin)
			e.awaitAppEvent("web", "Created", fmt.Sprintf("Created Deployment web with image nginx:latest and size %d", size))
			stop()
			got := requestsFor(&journal, e.namespace)
			t.Logf("requests: %v", got)
			if got["patch deployments"] != 1 || got["create events"] != 1 {
				t.Errorf("requests from creation to Ready: got %v, want one apply and one event", got)
			}
			// One more for each second that the rollout takes.
			if writes := got["update helloapps/status"]; writes < 2 || writes > 3+int(took.Seconds()) {
				t.Errorf("got %d status writes in %s, want 2 or 3", writes, took)
			}
			delete(got, "patch deployments")
			delete(got, "create events")
			delete(got, "update helloapps/status")
			if len(got) > 0 {
				t.Errorf("got other requests: %v", got)
			}
		})
	}
}

// everything sets all fields of a HelloApp, some with values that the API server normalizes.
func everything(s *v1.HelloAppSpec) {
	s.Port = 8080
	s.Env = []corev1.EnvVar{
		{Name: "MODE", Value: "fast"}, {Name: "EMPTY"},
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b", Optional: ptr.To(true),
		}}},
		{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b", Optional: ptr.To(false),
		}}},
	}
	s.Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi")},
		Requests: corev1.ResourceList{"cpu": resource.MustParse("0.0001"), "ephemeral-storage": resource.MustParse("1e6")},
	}
	s.ImagePullPolicy = corev1.PullIfNotPresent
	s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "b"}, {Name: "a"}}
	s.ServiceAccountName = "default"
}

func TestHelloAppSecondSync(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	var first faultproxy.Journal
	stop := runHelloApps(e, &first)
	for name, changes := range map[string]func(*v1.HelloAppSpec){"two-fields": func(*v1.HelloAppSpec) {}, "everything": everything} {
		e.createApp(helloApp(name, 1, changes))
		e.awaitApp(name, 1)
		// The Deployment reports this a moment after its Pods are available, and the status of the HelloApp a delay later.
		e.awaitAppCondition(name, v1.ConditionProgressing, metav1.ConditionTrue, "NewReplicaSetAvailable")
		// An annotation would lead to a new generation, which the Deployment controller would have to observe.
		e.patchDeployment(name, `{"metadata":{"labels":{"note":"a-second-sync"}}}`)
	}
	stop()

	// A new process syncs existing objects before new ones, and ends only after all syncs that it has begun.
	var second faultproxy.Journal
	stop = runHelloApps(e, &second)
	e.createApp(helloApp("later", 1))
	e.awaitApp("later", 1)
	stop()
	for _, entry := range second.Entries() {
		if entry.Name == "two-fields" || entry.Name == "everything" {
			t.Errorf("second process: got %s, want no request", entry)
		}
	}
	if got := requestsFor(&first, e.namespace); got["patch deployments"] != 2 || got["patch services"] != 1 {
		t.Errorf("requests of the first process: got %v, want one apply of each Deployment and Service", got)
	}
	for _, name := range []string{"two-fields", "everything"} {
		if reasons := reasonsOf(e.appEvents(name)); !slices.Equal(reasons, []string{"Created"}) {
			t.Errorf("events of %s: got %v, want Created", name, reasons)
		}
	}
}

func reasonsOf(events []corev1.Event) (reasons []string) {
	for _, event := range events {
		reasons = append(reasons, event.Reason)
	}
	slices.Sort(reasons)
	return reasons
}

func TestHelloAppInvalid(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	for name, test := range map[string]struct {
		app     *v1.HelloApp
		refusal string // empty if it is accepted
	}{
		"longest name":        {helloApp(strings.Repeat("a", 63), 1), ""},
		"name too long":       {helloApp(strings.Repeat("a", 64), 1), "metadata.name must be at most 63 lower case letters, digits and '-'"},
		"dot in name":         {helloApp("web.shop", 1), "metadata.name must be at most 63 lower case letters, digits and '-'"},
		"negative size":       {helloApp("web", -1), "spec.size in body should be greater than or equal to 0"},
		"invalid port":        {helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Port = 65536 }), "spec.port in body should be less than or equal to 65535"},
		"invalid pull policy": {helloApp("web", 1, func(s *v1.HelloAppSpec) { s.ImagePullPolicy = "Often" }), `supported values: "Always", "IfNotPresent", "Never"`},
		"duplicate variable":  {helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Env = []corev1.EnvVar{{Name: "A"}, {Name: "A"}} }), "spec.env[1]: Duplicate value"},
		"no image":            {helloApp("web", 1, func(s *v1.HelloAppSpec) { s.Image = "" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := e.client.AppsV1().HelloApps(e.namespace).Create(t.Context(), test.app, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case test.refusal == "" && err != nil:
				t.Errorf("create: %v", err)
			case test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)):
				t.Errorf("create: got %v, want %q", err, test.refusal)
			}
		})
	}
	for _, field := range []string{
		"helloapp", "helloapp.spec", "helloapp.spec.env", "helloapp.spec.resources", "helloapp.spec.imagePullSecrets",
		"helloapp.status", "helloapp.status.conditions",
	} {
		explained := e.kubectl("explain", field)
		if !strings.Contains(explained, "FIELDS:") || strings.Contains(explained, "<no description>") {
			t.Errorf("kubectl explain %s lacks text:\n%s", field, explained)
		}
	}
}
