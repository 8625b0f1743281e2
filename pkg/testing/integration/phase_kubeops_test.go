// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/function"
	"millwright.dev/pkg/testing/testcluster"
)

// kubeOps calls the function KubeOps on a real API server, in a namespace of its own.
type kubeOps struct {
	*testing.T
	function  phase.Function
	kube      kubernetes.Interface
	ours      versioned.Interface
	namespace string
	phases    int
}

func newKubeOps(t *testing.T) *kubeOps {
	t.Helper()
	cluster := testcluster.Shared(t)
	k := &kubeOps{T: t, namespace: cluster.Namespace(t)}
	var errs [3]error
	env := phase.Environment{Wake: func(phase.ID) {}, Reach: phase.Reach{Served: "operations"}}
	env.Dynamic, errs[0] = dynamic.NewForConfig(cluster.Config())
	k.kube, errs[1] = kubernetes.NewForConfig(cluster.Config())
	k.ours, errs[2] = versioned.NewForConfig(cluster.Config())
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	env.Client = k.kube
	k.function = function.New(t.Context(), env).Get("KubeOps")
	return k
}

// call returns a call of another phase each time.
func (k *kubeOps) call(args map[string]any) phase.Call {
	k.phases++
	return phase.Call{ID: phase.ID{Namespace: k.namespace, UID: types.UID("uid-" + k.namespace), Phase: k.phases}, Args: args}
}

// begin returns a validated call, as before a phase is started.
func (k *kubeOps) begin(args map[string]any) phase.Call {
	k.Helper()
	call := k.call(args)
	intent, err := k.function.Validate(k.Context(), call)
	if err != nil {
		k.Fatalf("validating: %v", err)
	}
	call.Intent = intent
	return call
}

// start starts the call. It starts it again if it returns a new intent, which the controller would record first.
func (k *kubeOps) start(call phase.Call) phase.Observation {
	k.Helper()
	for {
		observed, err := k.function.Start(k.Context(), call)
		if err != nil {
			k.Fatalf("starting: %v", err)
		}
		if observed.State != phase.Ready {
			return observed
		}
		call.Intent = observed.Intent
	}
}

func (k *kubeOps) poll(call phase.Call) phase.Observation {
	k.Helper()
	observed, err := k.function.Poll(k.Context(), call)
	if err != nil {
		k.Fatalf("polling: %v", err)
	}
	return observed
}

// is checks the state and the message of an observation.
func (k *kubeOps) is(observed phase.Observation, state phase.State, message string) {
	k.Helper()
	if observed.State != state || observed.Message != message {
		k.Fatalf("got %q: %s, want %q: %s", observed.State, observed.Message, state, message)
	}
}

const twoConfigMaps = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, namespace: NS}\ndata: {a: b}\n"

func TestKubeOpsCreatesOnce(t *testing.T) {
	k := newKubeOps(t)
	call := k.begin(map[string]any{"operation": "create", "namespace": k.namespace, "spec": strings.ReplaceAll(twoConfigMaps, "NS", k.namespace)})
	k.is(k.poll(call), phase.Idle, "")
	observed := k.start(call)
	k.is(observed, phase.Succeeded, "")
	want := map[string]any{"apiVersion": "v1", "group": "", "resource": "configmaps", "kind": "", "name": "two", "namespace": k.namespace}
	if diff := cmp.Diff(want, observed.Output); diff != "" {
		t.Errorf("output, that of the last object (-want +got):\n%s", diff)
	}
	configMaps := k.kube.CoreV1().ConfigMaps(k.namespace)
	two, err := configMaps.Get(t.Context(), "two", metav1.GetOptions{})
	if err != nil || two.Data["a"] != "b" || two.ManagedFields[0].Manager != "kanister-create" {
		t.Errorf("second object: got %+v (%v), want the data and the manager kanister-create", two, err)
	}

	// After a kill the next process finds the objects, or creates those that are missing.
	k.is(k.poll(call), phase.Succeeded, "")
	if err := configMaps.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.is(k.poll(call), phase.Idle, "")
	k.is(k.start(call), phase.Succeeded, "")
	if again, err := configMaps.Get(t.Context(), "two", metav1.GetOptions{}); err != nil || again.UID != two.UID {
		t.Errorf("the second object was created again: %v", err)
	}

	// Another phase that creates the same objects fails, as with Kanister.
	other := k.begin(map[string]any{"operation": "create", "namespace": k.namespace, "spec": strings.ReplaceAll(twoConfigMaps, "NS", k.namespace)})
	k.is(k.start(other), phase.Failed, `configmaps "one" already exists`)
}

func TestKubeOpsGenerateName(t *testing.T) {
	k := newKubeOps(t)
	call := k.begin(map[string]any{"operation": "create", "namespace": k.namespace, "spec": "apiVersion: v1\nkind: Secret\nmetadata: {generateName: s-}\n"})
	k.is(k.start(call), phase.Succeeded, "")
	k.is(k.start(call), phase.Succeeded, "")
	secrets, err := k.kube.CoreV1().Secrets(k.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 || !strings.HasPrefix(secrets.Items[0].Name, "s-") {
		t.Errorf("got %d Secrets (%v), want one whose name begins with s-", len(secrets.Items), err)
	}
}

func TestKubeOpsErrors(t *testing.T) {
	k := newKubeOps(t)
	missing := map[string]any{"apiVersion": "v1", "resource": "configmaps", "name": "none", "namespace": k.namespace}
	for name, test := range map[string]struct {
		args map[string]any
		want string
	}{
		"missing namespace": {map[string]any{
			"operation": "create", "namespace": "no-such-ns", "spec": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}",
		}, `namespaces "no-such-ns" not found`},
		"missing object":    {map[string]any{"operation": "delete", "objectReference": missing}, `configmaps "none" not found`},
		"unknown kind":      {map[string]any{"operation": "create", "spec": "apiVersion: v1\nkind: Nothing\nmetadata: {name: x}"}, `no matches for kind "Nothing" in version "v1"`},
		"unknown operation": {map[string]any{"operation": "replace"}, "invalid operation 'replace'"},
		"no object":         {map[string]any{"operation": "create", "spec": "---\n"}, "the spec has no object"},
		"incomplete reference": {map[string]any{"operation": "delete", "objectReference": map[string]any{"name": "x"}},
			"missing one or more required fields name/apiVersion/resource in objectReference"},
		"invalid spec": {map[string]any{"operation": "create", "spec": "{"}, "reading the spec: "},
		"invalid object": {map[string]any{
			"operation": "create", "namespace": k.namespace, "spec": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}",
		}, `ConfigMap "UPPER" is invalid: `},
		"invalid patch": {map[string]any{
			"operation": "patch", "spec": "[]", "objectReference": map[string]any{"apiVersion": "v1", "resource": "namespaces", "name": k.namespace},
		}, "reading the spec of the patch: "},
	} {
		call := k.call(test.args)
		intent, err := k.function.Validate(t.Context(), call)
		message, ok := phase.FailureOf(err)
		if err == nil {
			call.Intent = intent
			observed := k.start(call)
			message, ok = observed.Message, observed.State == phase.Failed
		}
		if !ok || !strings.HasPrefix(message, test.want) {
			t.Errorf("%s: got %q (%v), want %q", name, message, err, test.want)
		}
	}
}

func TestKubeOpsDelete(t *testing.T) {
	k := newKubeOps(t)
	configMaps := k.kube.CoreV1().ConfigMaps(k.namespace)
	create := func(finalizers ...string) {
		t.Helper()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Finalizers: finalizers}}
		if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("of.others/hold")
	call := k.begin(map[string]any{
		"operation": "delete", "namespace": k.namespace, "objectReference": map[string]any{"apiVersion": "v1", "resource": "configmaps", "name": "x"},
	})
	k.is(k.poll(call), phase.Idle, "")
	observed := k.start(call)
	k.is(observed, phase.Running, "")
	if observed.PollAfter <= 0 {
		t.Error("PollAfter: got none, want a delay after which the deletion is checked")
	}
	if _, err := configMaps.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(observed.PollAfter) // then a poll is due
	k.is(k.poll(call), phase.Succeeded, "")

	create() // a new object of the same name
	k.is(k.start(call), phase.Succeeded, "")
	if _, err := configMaps.Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Errorf("the new object was deleted: %v", err)
	}
}

func TestKubeOpsDeleteClusterScoped(t *testing.T) {
	k := newKubeOps(t)
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NAME}\n"
	name := "kubeops-" + k.namespace
	k.is(k.start(k.begin(map[string]any{"operation": "create", "spec": strings.ReplaceAll(role, "NAME", name)})), phase.Succeeded, "")
	call := k.begin(map[string]any{"operation": "delete", "objectReference": map[string]any{
		"group": "rbac.authorization.k8s.io", "apiVersion": "v1", "resource": "clusterroles", "name": name}})
	k.is(k.start(call), phase.Succeeded, "")
	if _, err := k.kube.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of the deleted ClusterRole: got %v, want not found", err)
	}
}

func TestKubeOpsPatchTypes(t *testing.T) {
	k := newKubeOps(t)
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template: {metadata: {labels: {app: d}}, spec: {containers: [{name: one, image: a}, {name: two, image: b}]}}
`
	k.is(k.start(k.begin(map[string]any{"operation": "create", "namespace": k.namespace, "spec": deployment})), phase.Succeeded, "")
	call := k.begin(map[string]any{
		"operation": "patch", "namespace": k.namespace, "spec": "spec: {template: {spec: {containers: [{name: two, image: c}]}}}",
		"objectReference": map[string]any{"group": "apps", "apiVersion": "v1", "resource": "deployments", "name": "d"},
	})
	k.is(k.poll(call), phase.Idle, "")
	k.is(k.start(call), phase.Succeeded, "")
	k.is(k.poll(call), phase.Succeeded, "")
	patched, err := k.kube.AppsV1().Deployments(k.namespace).Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if containers := patched.Spec.Template.Spec.Containers; len(containers) != 2 || containers[0].Image != "a" || containers[1].Image != "c" {
		t.Errorf("got containers %v, want the second one changed", containers)
	}

	if _, err := k.ours.CrV1alpha1().Profiles(k.namespace).Create(t.Context(), &v1alpha1.Profile{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Location: v1alpha1.Location{Bucket: "b", Region: "r"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	call = k.begin(map[string]any{
		"operation": "patch", "spec": "location: {region: other}",
		"objectReference": map[string]any{"group": "cr.kanister.io", "apiVersion": "v1alpha1", "resource": "profiles", "name": "p", "namespace": k.namespace},
	})
	k.is(k.start(call), phase.Succeeded, "")
	profile, err := k.ours.CrV1alpha1().Profiles(k.namespace).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || profile.Location.Bucket != "b" || profile.Location.Region != "other" {
		t.Errorf("got location %+v (%v), want the region changed", profile.Location, err)
	}
}
