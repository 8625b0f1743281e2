// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/testcluster"
)

// switched is the cluster of tests that replace CustomResourceDefinitions.
var switched = testcluster.NewLazy(clusterOptions...)

var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// kanistersDefinition returns Kanister's CustomResourceDefinition of ActionSets: without a status subresource, without the status fields that only
// Millwright has, and without limits of numbers.
func kanistersDefinition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("../../../manifests/00-crds/cr.kanister.io_actionsets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &definition.Object); err != nil {
		t.Fatal(err)
	}
	version := definition.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	delete(version, "subresources")
	of := func(fields ...string) map[string]any {
		properties, found, err := unstructured.NestedMap(version, fields...)
		if !found || err != nil {
			t.Fatalf("the schema has no %q: %v", fields, err)
		}
		return properties
	}
	status := []string{"schema", "openAPIV3Schema", "properties", "status", "properties"}
	properties := of(status...)
	for field := range properties {
		switch field {
		case "state", "actions", "error", "progress":
		default:
			delete(properties, field)
		}
	}
	if err := unstructured.SetNestedMap(version, properties, status...); err != nil {
		t.Fatal(err)
	}
	spec := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	properties = of(spec...)
	list := properties["actions"].(map[string]any)
	delete(list, "maxItems")
	for _, field := range []string{"configMaps", "secrets"} {
		unstructured.RemoveNestedField(list, "items", "properties", field, "maxProperties")
	}
	if err := unstructured.SetNestedMap(version, properties, spec...); err != nil {
		t.Fatal(err)
	}
	return definition
}

// installDefinition replaces the installed CustomResourceDefinition.
func (e *actionsEnv) installDefinition(definition *unstructured.Unstructured) {
	e.Helper()
	client, err := dynamic.NewForConfig(e.cluster.Config())
	if err != nil {
		e.Fatal(err)
	}
	definitions := client.Resource(definitionsResource)
	e.eventually(func() string {
		live, err := definitions.Get(e.Context(), definition.GetName(), metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		definition.SetResourceVersion(live.GetResourceVersion())
		_, err = definitions.Update(e.Context(), definition, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err):
			return err.Error()
		case err != nil:
			e.Fatal(err)
		}
		return ""
	})
}

// awaitStatusServed waits until discovery shows that ActionSets have a status subresource, or none.
func (e *actionsEnv) awaitStatusServed(want bool) {
	e.Helper()
	e.eventually(func() string {
		list, err := e.kube.Discovery().ServerResourcesForGroupVersionWithContext(e.Context(), v1alpha1.GroupVersion.String())
		if err != nil {
			return err.Error()
		}
		served := false
		for _, resource := range list.APIResources {
			served = served || resource.Name == "actionsets/status"
		}
		if served != want {
			return fmt.Sprintf("status subresource: got %t, want %t", served, want)
		}
		return ""
	})
}

// kanistersStatuses has the states that Kanister's controller writes: of the run, of the phases one and two, and of the deferPhase bye.
var kanistersStatuses = map[string]string{
	"complete":      "complete complete complete complete",
	"failed":        "failed complete failed complete",
	"failed-init":   "failed",
	"running":       "running complete running pending",
	"running-fresh": "running pending pending pending",
	"pending":       "pending pending pending pending",
}

func kanistersStatus(name string) *v1alpha1.ActionSetStatus {
	states := strings.Fields(kanistersStatuses[name])
	status := &v1alpha1.ActionSetStatus{State: v1alpha1.State(states[0])}
	if len(states) == 1 {
		status.Error.Message = `Failed to query blueprint: blueprints.cr.kanister.io "x" not found`
		return status
	}
	of := func(name, state string) v1alpha1.Phase {
		return v1alpha1.Phase{Name: name, State: v1alpha1.State(state)}
	}
	status.Actions = []v1alpha1.ActionStatus{{
		Name: "go", Blueprint: "stored", Phases: []v1alpha1.Phase{of("one", states[1]), of("two", states[2])}, DeferPhase: of("bye", states[3]),
	}}
	return status
}

// runServing starts a controller that serves its readiness, and returns the address.
func (e *actionsEnv) runServing() (address string) {
	e.Helper()
	address = freeAddress(e.T)
	options := manager.NewOptions()
	options.Kubeconfig = e.account.WriteKubeconfig(e.T)
	options.Controllers, options.Namespace = actions.controllers(e.T), e.namespace
	options.LeaderElect, options.ServingAddress = false, address
	stop := startManager(e, options)
	e.Cleanup(func() {
		if err := stop(); err != nil {
			e.Errorf("controller: %v", err)
		}
	})
	return address
}

// readiness returns what /readyz reports for a controller, "ok" if it is ready.
func readiness(address, controller string) string {
	response, err := http.Get("http://" + address + "/readyz/" + controller)
	if err != nil {
		return err.Error()
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(body))
}

// Kanister's CustomResourceDefinition is installed, with ActionSets of its controller. Then ours replaces it, as the guide describes.
// No run is executed twice.
func TestActionSetSwitchFromKanister(t *testing.T) {
	t.Parallel()
	cluster := switched.Get(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindInNamespace(e.env, actions, e.account)
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}})
	e.installDefinition(kanistersDefinition(t))
	e.awaitStatusServed(false)
	e.blueprint("stored", goPhases(createConfigMapPhase("one", "one"), createConfigMapPhase("two", "two"))+withDefer(createConfigMapPhase("bye", "bye")))
	versions := map[string]string{}
	for name := range kanistersStatuses {
		set := &v1alpha1.ActionSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
				Name: "go", Blueprint: "stored", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
			}}},
			Status: kanistersStatus(name),
		}
		created := e.createSet(set)
		if created.Status == nil || created.Status.State != set.Status.State {
			t.Fatalf("create of %s: got the status %+v, want %+v", name, created.Status, set.Status)
		}
		versions[name] = created.ResourceVersion
	}
	tooMany := e.tooManyStored()
	for set := range tooMany {
		e.createSet(set)
	}

	address := e.runServing()
	const complaint = "CustomResourceDefinition actionsets.cr.kanister.io has no status subresource"
	e.eventually(func() string {
		if got := readiness(address, "actionset"); !strings.Contains(got, complaint) {
			return "readyz: got " + got + ", want " + complaint
		}
		return ""
	})
	e.eventually(func() string {
		list, err := e.kube.CoreV1().Events(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=pending,type=" + corev1.EventTypeWarning})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Reason != "StatusNotServed" || !strings.Contains(list.Items[0].Message, complaint) {
			return fmt.Sprintf("events of the pending ActionSet: got %v, want StatusNotServed", list.Items)
		}
		return ""
	})
	for name, version := range versions {
		if name == "pending" {
			continue // it may get its finalizer before the first response of discovery
		}
		if set := e.getSet(name); set.ResourceVersion != version {
			t.Errorf("ActionSet %s was written: %s", name, summary(set))
		}
	}

	const definitions = "../../../manifests/00-crds"
	shown := cluster.StartKubectl(t, "diff", "--server-side", "--force-conflicts", "-f", definitions)
	e.eventually(func() string {
		if !regexp.MustCompile(`(?m)^\+ +subresources:\n\+ +status: \{\}$`).MatchString(shown()) {
			return "kubectl diff does not show the status subresource:\n" + shown()
		}
		return ""
	})
	cluster.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", definitions)
	e.wantEnd("pending", "complete one=complete two=complete defer bye=complete; 100%")
	for _, name := range []string{"running", "running-fresh"} {
		set := e.awaitEnd(name)
		failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed)
		if failed == nil || failed.Reason != v1alpha1.ReasonRunLost || !strings.Contains(failed.Message, "was started by another controller") {
			t.Errorf("ActionSet %s: got %s, want the run lost", name, summary(set))
		}
	}
	for stored, want := range tooMany {
		name := stored.Name
		e.patchSet(name, `{"metadata":{"labels":{"touched":"yes"}}}`)
		if got := e.awaitEnd(name).Status.Error.Message; got != want {
			t.Errorf("error of ActionSet %s: got %.300q, want %q", name, got, want)
		}
		e.deleteSet(name)
		e.awaitGone(name)
	}
	for _, name := range []string{"complete", "failed", "failed-init"} {
		e.patchSet(name, `{"metadata":{"labels":{"touched":"yes"}}}`)
		versions[name] = e.getSet(name).ResourceVersion
	}
	e.startRun("later", "  phases: ["+createConfigMapPhase("later", "later")+"]\n")
	e.awaitEnd("later")
	for _, name := range []string{"complete", "failed", "failed-init"} {
		if set := e.getSet(name); set.ResourceVersion != versions[name] || len(set.Finalizers) > 0 {
			t.Errorf("ActionSet %s was written: %s", name, summary(set))
		}
	}
	if got := readiness(address, "actionset"); got != "ok" {
		t.Errorf("readyz: got %s, want ok", got)
	}
	// The pending ActionSet has created these once: a second attempt would have failed.
	for _, name := range []string{"one", "two", "bye"} {
		if e.configMap(name) == nil {
			t.Errorf("ConfigMap %s was not created", name)
		}
	}
}
