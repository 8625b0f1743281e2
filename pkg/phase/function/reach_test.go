// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"millwright.dev/pkg/phase"
)

func secretOf(namespace, name string, secretType corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: secretType}
}

func setOf(namespace string) *unstructured.Unstructured {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(schema.GroupVersionKind{Group: "cr.kanister.io", Version: "v1alpha1", Kind: "ActionSet"})
	set.SetNamespace(namespace)
	set.SetName("other")
	return set
}

// The ActionSet is in the namespace ops, whose ActionSets are run by an operator in the namespace system.
func TestReach(t *testing.T) {
	on := func(resource, namespace, name string) map[string]any {
		group, version := "", "v1"
		if resource == "actionsets" {
			group, version = "cr.kanister.io", "v1alpha1"
		}
		return map[string]any{"group": group, "apiVersion": version, "resource": resource, "namespace": namespace, "name": name}
	}
	change := func(operation string, object map[string]any) map[string]any {
		return map[string]any{"operation": operation, "objectReference": object, "spec": "{metadata: {finalizers: [x]}}"}
	}
	create := func(spec string) map[string]any { return map[string]any{"operation": "create", "spec": spec} }
	wait := func(object map[string]any) map[string]any {
		return map[string]any{"timeout": "1s", "conditions": map[string]any{"allOf": []any{map[string]any{"condition": "true", "objectReference": object}}}}
	}
	const (
		elsewhere = "actionsets.cr.kanister.io shop/other is in another namespace than the ActionSet"
		token     = "is a token of a ServiceAccount"
		snapshot  = "has the name of a snapshot of a run"
		inServed  = "in a namespace whose ActionSets the operator runs"
	)
	for name, test := range map[string]struct {
		function string
		args     map[string]any
		want     string // a part of the failure, "" for none
	}{
		"delete an ActionSet":             {"KubeOps", change("delete", on("actionsets", "shop", "other")), elsewhere},
		"patch an ActionSet":              {"KubeOps", change("patch", on("actionsets", "shop", "other")), elsewhere},
		"delete one of its namespace":     {"KubeOps", change("delete", on("actionsets", "ops", "other")), ""},
		"create an ActionSet":             {"KubeOps", create("{apiVersion: cr.kanister.io/v1alpha1, kind: ActionSet, metadata: {name: other, namespace: shop}}"), elsewhere},
		"wait for an ActionSet":           {"Wait", wait(on("actionsets", "shop", "other")), elsewhere},
		"wait for one of its namespace":   {"WaitV2", wait(on("actionsets", "ops", "other")), ""},
		"create a token":                  {"KubeOps", create("{apiVersion: v1, kind: Secret, metadata: {name: t, namespace: shop}, type: kubernetes.io/service-account-token}"), token},
		"create another Secret":           {"KubeOps", create("{apiVersion: v1, kind: Secret, metadata: {name: t, namespace: shop}, type: Opaque}"), ""},
		"create a Secret in a served one": {"KubeOps", create("{apiVersion: v1, kind: Secret, metadata: {name: t, namespace: ops}, type: Opaque}"), inServed},
		"delete a Secret in a served one": {"KubeOps", change("delete", on("secrets", "ops", "credentials")), inServed},
		"patch a Secret in a served one":  {"KubeOps", change("patch", on("secrets", "ops", "credentials")), inServed},
		"delete a snapshot":               {"KubeOps", change("delete", on("secrets", "ops", "actionset-run-1")), snapshot},
		"delete what looks like one":      {"KubeOps", change("delete", on("secrets", "shop", "actionset-run-1")), snapshot},
		"wait for a token":                {"Wait", wait(on("secrets", "shop", "token")), token},
		"wait for another Secret":         {"Wait", wait(on("secrets", "shop", "credentials")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Resources = []*metav1.APIResourceList{served("v1", "Secret"), served("cr.kanister.io/v1alpha1", "ActionSet")}
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			objects := dynamicfake.NewSimpleDynamicClient(scheme, setOf("ops"), setOf("shop"), secretOf("ops", "credentials", corev1.SecretTypeOpaque),
				secretOf("shop", "credentials", corev1.SecretTypeOpaque), secretOf("shop", "token", corev1.SecretTypeServiceAccountToken),
				secretOf("ops", "actionset-run-1", "millwright.dev/actionset-run"), secretOf("shop", "actionset-run-1", corev1.SecretTypeOpaque))
			ctx, stop := context.WithCancel(t.Context())
			functions := New(ctx, phase.Environment{
				Client: client, Dynamic: objects, Reach: phase.Reach{Operator: "system", Served: "ops"}, Wake: func(phase.ID) {},
			})
			defer functions.Wait()
			defer stop()
			call := phase.Call{ID: phase.ID{Namespace: "ops", Name: "set", UID: "u"}, Args: test.args}
			function := functions.Get(test.function)
			intent, err := function.Validate(ctx, call)
			refused, _ := phase.FailureOf(err)
			if test.want == "" && err != nil || !strings.Contains(refused, test.want) && name != "wait for a token" {
				t.Errorf("it is refused with %q, %v; want %q", refused, err, test.want)
			}
			if call.Intent = intent; err != nil { // an earlier release has not refused it, or a template has rendered something else
				call.Intent = uncheckedIntent(t, test.function, test.args)
			}
			found, err := function.Start(ctx, call)
			if got := found.Message + found.Waiting.Details; err != nil || test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("its start ends with %q, %v; want %q", got, err, test.want)
			}
			wrote := slices.ContainsFunc(objects.Actions(), func(action clienttesting.Action) bool { return action.GetVerb() != "get" })
			if test.want != "" && wrote {
				t.Errorf("it was refused after %v", objects.Actions())
			}
		})
	}
}

// uncheckedIntent returns the intent of a call that was not checked.
func uncheckedIntent(t *testing.T, function string, args map[string]any) map[string]any {
	t.Helper()
	var from any = waitIntent{Since: time.Now()}
	if function == "KubeOps" {
		var on target
		if reference, ok := args["objectReference"].(map[string]any); ok {
			text := func(field string) string { return reference[field].(string) }
			on = target{Group: text("group"), APIVersion: text("apiVersion"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name")}
		} else {
			objects, err := manifests(t.Context(), args["spec"].(string))
			if err != nil {
				t.Fatal(err)
			}
			kind := objects[0].GroupVersionKind()
			on = target{
				Group: kind.Group, APIVersion: kind.Version, Resource: strings.ToLower(kind.Kind) + "s",
				Namespace: objects[0].GetNamespace(), Name: objects[0].GetName(),
			}
		}
		from = kubeOpsIntent{Operation: args["operation"].(string), Objects: []target{on}}
	}
	intent, err := phase.EncodeIntent(from)
	if err != nil {
		t.Fatal(err)
	}
	return intent
}
