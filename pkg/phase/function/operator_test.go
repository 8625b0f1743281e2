// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"millwright.dev/pkg/phase"
)

func TestDefaultNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		args, subject, want string
	}{
		"the argument":                 {args: "named", subject: "shop", want: "named"},
		"that of the subject":          {subject: "shop", want: "shop"},
		"not that of the ActionSet":    {want: ""},
		"an argument that is no name":  {args: "../x", subject: "shop", want: ""},
		"an argument of two segments":  {args: "a/b", subject: "shop", want: ""},
		"an argument of capital words": {args: "Shop", subject: "shop", want: ""},
	} {
		for function, args := range map[string]map[string]any{
			"KubeTask": {"image": "i", "command": "c"},
			"MultiContainerRun": {
				"backgroundImage": "b", "backgroundCommand": "c", "outputImage": "o", "outputCommand": "c",
			},
		} {
			t.Run(function+"/"+name, func(t *testing.T) {
				if c.args != "" {
					args["namespace"] = c.args
				}
				functions := newFunctions(t, phase.Environment{Client: fake.NewClientset()})
				intent, err := functions.Get(function).Validate(t.Context(), phase.Call{ID: testID, Args: args, Action: phase.Action{Namespace: c.subject}})
				if _, failure := phase.FailureOf(err); failure != (c.want == "") {
					t.Fatalf("the error is %v", err)
				}
				if c.want != "" && intent["namespace"] != c.want {
					t.Errorf("the Pod is to be in %v, want %s", intent["namespace"], c.want)
				}
			})
		}
	}
}

// inOperatorNamespace are calls that work in the namespace of the operator, or on it.
func inOperatorNamespace() map[string]struct {
	function string
	call     phase.Call
} {
	const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: system}}"
	call := func(args map[string]any) phase.Call { return phase.Call{ID: testID, Args: args} }
	return map[string]struct {
		function string
		call     phase.Call
	}{
		"a task":                 {"KubeTask", call(map[string]any{"namespace": "system", "image": "i", "command": "c"})},
		"a task, by its subject": {"KubeTask", phase.Call{ID: testID, Args: map[string]any{"image": "i", "command": "c"}, Action: phase.Action{Namespace: "system"}}},
		"several containers": {"MultiContainerRun", call(map[string]any{
			"namespace": "system", "backgroundImage": "b", "backgroundCommand": "c", "outputImage": "o", "outputCommand": "c",
		})},
		"volumes":                {"PrepareData", call(map[string]any{"namespace": "system", "image": "i", "command": "c", "volumes": map[string]any{"data": "/data"}})},
		"a command":              {"KubeExec", call(map[string]any{"namespace": "system", "pod": "p", "command": "c"})},
		"commands":               {"KubeExecAll", call(map[string]any{"namespace": "system", "pods": "p q", "containers": "a b", "command": "c"})},
		"an object that is made": {"KubeOps", call(map[string]any{"operation": "create", "spec": object})},
		"an object by argument":  {"KubeOps", call(map[string]any{"operation": "create", "namespace": "system", "spec": "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"})},
		"an object that is deleted": {"KubeOps", call(map[string]any{
			"operation": "delete", "objectReference": map[string]any{"apiVersion": "v1", "resource": "configmaps", "name": "c", "namespace": "system"},
		})},
		"the namespace itself": {"KubeOps", call(map[string]any{
			"operation": "delete", "objectReference": map[string]any{"apiVersion": "v1", "resource": "namespaces", "name": "system"},
		})},
		"a Deployment is scaled": {"ScaleWorkload", call(map[string]any{"replicas": "0", "kind": "deployment", "namespace": "system", "name": "d"})},
		"a condition on a Secret": {"WaitV2", call(map[string]any{"timeout": "1s", "conditions": map[string]any{"allOf": []any{map[string]any{
			"condition": "true", "objectReference": map[string]any{"apiVersion": "v1", "resource": "secrets", "name": "c", "namespace": "system"},
		}}}})},
	}
}

func TestOperatorNamespaceIsRefused(t *testing.T) {
	for name, c := range inOperatorNamespace() {
		t.Run(name, func(t *testing.T) {
			claim, deployment := claimOf("data", "ReadWriteOnce"), deploymentOf("system", "d")
			claim.Namespace = "system"
			client := fake.NewClientset(claim, deployment)
			client.Resources = []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret", "Namespace")}
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			there := []runtime.Object{configMapOf("system", "c"), namespaceOf("system")}
			for operatorNamespace, refused := range map[string]bool{"system": true, "elsewhere": false, "": false} {
				ctx, stop := context.WithCancel(t.Context())
				functions := New(ctx, phase.Environment{
					Client: client, Dynamic: dynamicfake.NewSimpleDynamicClient(scheme, there...),
					Reach: phase.Reach{Operator: operatorNamespace, Served: "ops"}, Wake: func(phase.ID) {},
				})
				intent, err := functions.Get(c.function).Validate(ctx, c.call)
				message, _ := phase.FailureOf(err)
				if refused {
					wantText(t, "the failure", message, "in the namespace system, which is the operator's own")
				} else if err != nil {
					t.Errorf("the operator is in %q: %v", operatorNamespace, err)
				}
				// What an older version has recorded is refused too.
				if c.call.Intent = intent; refused && c.function != "WaitV2" && c.function != "KubeExec" && c.function != "KubeExecAll" {
					c.call.Intent = recordedBefore(t, c.function, c.call, client, dynamicfake.NewSimpleDynamicClient(scheme, there...))
					found, err := functions.Get(c.function).Start(ctx, c.call)
					if err != nil || found.State != phase.Failed {
						t.Errorf("its start is %q: %v", found.State, err)
					}
				}
				stop()
				functions.Wait()
			}
		})
	}
}

// recordedBefore is the intent of a process that does not know which namespace is the operator's.
func recordedBefore(
	t *testing.T, function string, call phase.Call, client kubernetes.Interface, objects dynamic.Interface,
) map[string]any {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	functions := New(ctx, phase.Environment{Client: client, Dynamic: objects, Wake: func(phase.ID) {}})
	defer functions.Wait()
	defer stop()
	intent, err := functions.Get(function).Validate(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	return intent
}

func configMapOf(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "c-uid"}}
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "n-uid"}}
}

func deploymentOf(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "d-uid"}}
}
