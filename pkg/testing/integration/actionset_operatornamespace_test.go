// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

// A client that can create Pods in the namespace of the operator can use its ServiceAccounts, and so has all rights of Millwright.
func TestActionSetOperatorNamespaceRights(t *testing.T) {
	all, err := allRights()
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range all.roleBindings {
		if binding.RoleRef.Name == applicationRole {
			t.Errorf("%s is bound in %s", applicationRole, binding.Namespace)
		}
	}
	for _, binding := range all.clusterRoleBindings {
		if binding.RoleRef.Name == applicationRole {
			t.Errorf("%s is bound in all namespaces", applicationRole)
		}
	}
	cluster := testcluster.Shared(t)
	client, err := kubernetes.NewForConfig(actions.account(t, cluster).Config)
	if err != nil {
		t.Fatal(err)
	}
	requests[actions].expectForbidden(corev1.Resource("pods"))
	_, err = client.CoreV1().Pods(accountNamespace).Create(t.Context(), podWithAccount("millwright-core"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `cannot create resource "pods"`) {
		t.Errorf("create of a Pod with the account millwright-core: got %v, want forbidden", err)
	}
}

// podWithAccount returns a Pod that Pod Security allows in the namespace of the operator.
func podWithAccount(account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "taken-"}, Spec: corev1.PodSpec{
		ServiceAccountName: account,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{Name: "container", Image: "x", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}}
}

// An administrator has granted the ActionSet operator too much: the ClusterRole for applications in all namespaces, and rights for KubeOps.
func TestActionSetOperatorNamespacePolicy(t *testing.T) {
	e := newEnv(t, testcluster.Shared(t))
	account := actions.account(t, e.cluster)
	e.grantActionsForNow([]string{accountNamespace, e.namespace},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"create", "delete", "get", "patch"}},
	)
	client, err := kubernetes.NewForConfig(account.Config)
	if err != nil {
		t.Fatal(err)
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	secret := func(kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{Type: kind, ObjectMeta: metav1.ObjectMeta{
			GenerateName: "made-", Annotations: map[string]string{corev1.ServiceAccountNameKey: "millwright-core"},
		}}
	}
	try := map[string]func(ctx context.Context, namespace string) error{
		"create a Pod": func(ctx context.Context, namespace string) error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, podWithAccount("default"), dryRun)
			return err
		},
		"run a command": func(ctx context.Context, namespace string) error {
			return client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("none").SubResource("exec").Do(ctx).Error()
		},
		"create a token": func(ctx context.Context, namespace string) error {
			_, err := client.CoreV1().Secrets(namespace).Create(ctx, secret(corev1.SecretTypeServiceAccountToken), dryRun)
			return err
		},
		"create an object": func(ctx context.Context, namespace string) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}}, dryRun)
			return err
		},
	}
	// A token is refused by another policy, too, in any namespace, and the API server reports the refusal of either.
	refused := func(err error) bool {
		return err != nil && (strings.Contains(err.Error(), "phases of ActionSets do nothing in the namespace of the operator") ||
			strings.Contains(err.Error(), "phases of ActionSets neither create nor change tokens"))
	}
	e.eventually(func() string { // a policy takes effect some time after it was created
		if err := try["create a Pod"](t.Context(), accountNamespace); !refused(err) {
			return "create of a Pod: got " + errorText(err) + ", want it refused"
		}
		return ""
	})
	for what, do := range try {
		if err := do(t.Context(), accountNamespace); !refused(err) {
			t.Errorf("%s in the namespace of the operator: got %v, want it refused", what, err)
		}
		if err := do(t.Context(), e.namespace); refused(err) && what != "create a token" {
			t.Errorf("%s in another namespace: got %v, want the policy to allow it", what, err)
		}
	}
	// The policy allows what the controller itself does there.
	if _, err := client.CoreV1().Secrets(accountNamespace).Create(t.Context(), secret("millwright.dev/actionset-run"), dryRun); err != nil {
		t.Errorf("create of a snapshot: %v", err)
	}
	// The policy is about the operator only.
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}}
	if _, err := e.kube.CoreV1().ConfigMaps(accountNamespace).Create(t.Context(), configMap, dryRun); err != nil {
		t.Errorf("create of a ConfigMap by an administrator: %v", err)
	}
}

// grantActionsForNow gives the ActionSet operator rights in these namespaces until the test ends.
func (e *env) grantActionsForNow(namespaces []string, rules ...rbacv1.PolicyRule) {
	e.Helper()
	name := e.namespace + "-for-now"
	for _, namespace := range namespaces {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := e.kube.RbacV1().Roles(namespace).Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
		_, err := e.kube.RbacV1().RoleBindings(namespace).Create(e.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: string(actions)}},
		}, metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() {
			if err := e.kube.RbacV1().RoleBindings(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				e.Errorf("deleting the RoleBinding in %s: %v", namespace, err)
			}
		})
		for _, r := range rightsOf(rules) {
			there := r.attributes()
			there.Namespace = namespace
			e.cluster.AwaitRight(e, actions.account(e, e.cluster), there)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func TestActionSetOperatorAccountRefused(t *testing.T) {
	e := &actionsEnv{env: newEnv(t, testcluster.Shared(t))}
	client, err := dynamic.NewForConfig(e.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	const created = "created"
	create := func(manifest string) string {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(e.text("x", manifest)), &object.Object); err != nil {
			t.Fatalf("%s: %v", manifest, err)
		}
		resource := v1alpha1.Resource(strings.ToLower(object.GetKind()) + "s").WithVersion(v1alpha1.GroupVersion.Version)
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		if _, err := client.Resource(resource).Namespace(e.namespace).Create(t.Context(), &object, dryRun); err != nil {
			return err.Error()
		}
		return created
	}
	const blueprint = "{apiVersion: cr.kanister.io/v1alpha1, kind: Blueprint, metadata: {generateName: b-}, actions: {go: {%s}}}"
	phase := func(args string) string {
		return strings.Replace(blueprint, "%s", "phases: [{func: KubeTask, name: a, args: {image: x}}, {func: KubeTask, name: b, args: "+args+"}]", 1)
	}
	deferred := func(args string) string {
		return strings.Replace(blueprint, "%s", "phases: [{func: KubeTask, name: a}], deferPhase: {func: KubeTask, name: b, args: "+args+"}", 1)
	}
	set := func(action string) string {
		return "{apiVersion: cr.kanister.io/v1alpha1, kind: ActionSet, metadata: {generateName: s-}, " +
			"spec: {actions: [{name: go, blueprint: b, object: {kind: Namespace, name: $NS}" + action + "}]}}"
	}
	e.eventually(func() string {
		if got := create(set(", podOverride: {serviceAccountName: millwright-core}")); !strings.Contains(got, "podOverride names a ServiceAccount of the operator") {
			return got
		}
		return ""
	})
	for name, manifest := range map[string]string{
		"an ActionSet":               set(", podOverride: {serviceAccountName: millwright-core}"),
		"by the older field":         set(", podOverride: {serviceAccount: millwright-engine}"),
		"a Blueprint":                phase("{podOverride: {serviceAccountName: millwright-actions}}"),
		"a Blueprint, older field":   phase("{podOverride: {serviceAccount: farm-operator}}"),
		"a deferPhase":               deferred("{podOverride: {serviceAccountName: millwright-actions}}"),
		"an argument of PrepareData": phase("{serviceaccount: millwright-core}"),
	} {
		if got := create(manifest); !strings.Contains(got, "a ServiceAccount of the operator") {
			t.Errorf("%s: got %s, want it refused", name, got)
		}
	}
	for name, manifest := range map[string]string{
		"another account":                set(", podOverride: {serviceAccountName: mine}"),
		"no override":                    set(""),
		"an account of an odd type":      set(", podOverride: {serviceAccountName: 3}"),
		"a Blueprint of another account": phase("{podOverride: {serviceAccountName: mine}, serviceaccount: mine}"),
		"an override that is a template": phase("{podOverride: '{{ toJson .PodOverride }}'}"),
		"an account that is a template":  phase("{serviceaccount: '{{ .Options.account }}'}"),
		"a Blueprint without phases":     strings.Replace(blueprint, "%s", "kind: Namespace", 1),
		"a Blueprint without actions":    "{apiVersion: cr.kanister.io/v1alpha1, kind: Blueprint, metadata: {generateName: b-}}",
		"an ActionSet without a spec":    "{apiVersion: cr.kanister.io/v1alpha1, kind: ActionSet, metadata: {generateName: s-}}",
	} {
		if got := create(manifest); got != created {
			t.Errorf("%s: got %s, want it created", name, got)
		}
	}
}

// The Pod of a phase that names no namespace is created in the namespace of its subject, not in that of the ActionSet and the operator.
func TestActionSetPodDefaultNamespace(t *testing.T) {
	e := newActionsEnv(t)
	shop := e.cluster.Namespace(t)
	bindApplicationRole(e, shop)
	e.run(nil)
	e.blueprint("task", goPhases("{func: KubeTask, name: task, args: {image: x, command: [x]}}"))
	for name, object := range map[string]string{
		"namespace": "{kind: Namespace, name: " + shop + ", namespace: " + shop + "}",
		"object":    "{kind: ConfigMap, apiVersion: v1, resource: configmaps, name: kube-root-ca.crt, namespace: " + shop + "}",
	} {
		e.actionSet(name, "{name: go, blueprint: task, object: "+object+"}")
		set := e.awaitPhase(name, "task", v1alpha1.StateRunning)
		e.eventually(func() string {
			pods, err := e.kube.CoreV1().Pods(shop).List(t.Context(), metav1.ListOptions{LabelSelector: "millwright.dev/actionset-uid=" + string(set.UID)})
			if err != nil {
				return err.Error()
			}
			if len(pods.Items) != 1 {
				return "the Pod is not in the namespace of the subject"
			}
			return ""
		})
		e.deleteSet(name)
	}
	// A cluster-scoped subject has no namespace.
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}})
	node := e.startNode(nil)
	e.node = nil // actionSet must not add its podOverride
	e.actionSet("cluster", "{name: go, blueprint: task, object: {kind: Node, apiVersion: v1, resource: nodes, name: "+node.name+"}}")
	set := e.wantEnd("cluster", "failed task=failed; the phase makes a Pod and names no namespace for it, and the subject of the action is in none: "+
		"give the phase the argument namespace, or the action a subject in the namespace of the application")
	if failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed); failed.Reason != v1alpha1.ReasonInvalid {
		t.Errorf("condition Failed: got the reason %s, want %s", failed.Reason, v1alpha1.ReasonInvalid)
	}
}

// bindApplicationRole binds the ClusterRole for applications in a namespace, as its administrator does.
func bindApplicationRole(e *actionsEnv, namespace string) {
	e.Helper()
	e.kubectl("create", "rolebinding", applicationRole, "-n", namespace, "--clusterrole="+applicationRole, "--serviceaccount="+accountNamespace+":"+string(actions))
	there := toCreateStreams.attributes()
	there.Namespace = namespace
	e.cluster.AwaitRight(e, e.account, there)
}

// The operator runs in the namespace of its ActionSets, as it is shipped.
func TestActionSetOperatorNamespaceRefused(t *testing.T) {
	cluster := testcluster.Shared(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	t.Setenv("POD_NAMESPACE", e.namespace) // so the test cannot be parallel
	bindInNamespace(e.env, actions, e.account)
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "delete", "get", "patch"}})
	e.run(nil)
	for name, phase := range map[string]string{
		"task":    "{func: KubeTask, name: go, args: {image: x, command: [x]}}",
		"exec":    "{func: KubeExec, name: go, args: {namespace: $NS, pod: x, command: [x]}}",
		"object":  createPhase("go"),
		"logs":    "{func: MultiContainerRun, name: go, args: {backgroundImage: x, backgroundCommand: [x], outputImage: x, outputCommand: [x]}}",
		"account": "{func: KubeTask, name: go, args: {namespace: default, image: x, command: [x], podOverride: {serviceAccountName: '{{ \"millwright\" }}-core'}}}",
	} {
		e.blueprint(name, goPhases(phase))
		e.actionSet(name)
		set := e.awaitEnd(name)
		if want := "operator's"; set.Status.State != v1alpha1.StateFailed || !strings.Contains(set.Status.Error.Message, want) {
			t.Errorf("%s: got %s, want it failed with an error that has %q", name, summary(set), want)
		}
	}
	if pods, err := e.kube.CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) > 0 {
		t.Errorf("got %d Pods (%v), want none", len(pods.Items), err)
	}
}
