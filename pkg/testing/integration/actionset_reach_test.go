// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/testcluster"
)

// The policy holds for every client with the account of the operator, whatever was granted to it.
func TestActionSetReachPolicy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	account := actions.account(t, e.cluster)
	e.grantActionsForNow([]string{e.namespace},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "delete", "get", "patch"}})
	client, err := kubernetes.NewForConfig(account.Config)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := versioned.NewForConfig(account.Config)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Finalizers: []string{"example.com/theirs", "millwright.dev/actionset"}}}
	if _, err := e.client.CrV1alpha1().ActionSets(e.namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	large := (&actionsEnv{env: e}).withNumbers("large", 1000, 0, 0)
	large.Finalizers = foreign.Finalizers
	for i := range large.Spec.Actions {
		large.Spec.Actions[i].Options = map[string]string{"text": strings.Repeat("x", 1000)}
	}
	if _, err := e.client.CrV1alpha1().ActionSets(e.namespace).Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.kube.CoreV1().Secrets(e.namespace).Create(t.Context(), secretNamed("credentials", corev1.SecretTypeOpaque), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dryRun := []string{metav1.DryRunAll}
	patchOf := func(name, body string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := sets.CrV1alpha1().ActionSets(e.namespace).Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	patch := func(body string) func(ctx context.Context) error { return patchOf("foreign", body) }
	create := func(secretType corev1.SecretType) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			secret := secretNamed("made", secretType)
			secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			_, err := client.CoreV1().Secrets(e.namespace).Create(ctx, secret, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	remove := func(ctx context.Context) error {
		return client.CoreV1().Secrets(e.namespace).Delete(ctx, "credentials", metav1.DeleteOptions{DryRun: dryRun})
	}
	const (
		set, token, served = "changes nothing of an ActionSet but its own finalizer", "tokens of ServiceAccounts", "in a namespace whose ActionSets the operator runs"
	)
	type attempt struct {
		do   func(ctx context.Context) error
		want string // a part of the error, "" for none
	}
	check := func(when string, attempts map[string]attempt) {
		t.Helper()
		for what, each := range attempts {
			e.eventually(func() string { // a policy, and a right, take effect some time after they were created
				err := each.do(t.Context())
				if each.want == "" && err == nil || each.want != "" && err != nil && strings.Contains(err.Error(), each.want) {
					return ""
				}
				return when + ", " + what + ": got " + errorText(err) + ", want " + each.want
			})
		}
	}
	check("in any namespace", map[string]attempt{
		"cancel a run":                {patch(`{"spec":{"actions":[],"cancel":true}}`), set},
		"add a finalizer":             {patch(`{"metadata":{"finalizers":["example.com/theirs","millwright.dev/actionset","example.com/more"]}}`), set},
		"remove another's":            {patch(`{"metadata":{"finalizers":["millwright.dev/actionset"]}}`), set},
		"remove all":                  {patch(`{"metadata":{"finalizers":null}}`), set},
		"add an owner":                {patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`), "forbidden"}, // Kubernetes itself asks for the right to delete it
		"patch it as KubeOps does":    {patch(`{"metadata":{"annotations":{"millwright.dev/phase":"x"},"labels":{"a":"b"}}}`), set},
		"what a webhook adds to it":   {patch(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"finalizers":["example.com/theirs"]}}`), ""},
		"remove its own finalizer":    {patch(`{"metadata":{"finalizers":["example.com/theirs"]}}`), ""},
		"the same of a large set":     {patchOf("large", `{"metadata":{"finalizers":["example.com/theirs"]}}`), ""},
		"cancel a large run":          {patchOf("large", `{"spec":{"cancel":true}}`), set},
		"create a token":              {create(corev1.SecretTypeServiceAccountToken), token},
		"create another Secret":       {create(corev1.SecretTypeOpaque), ""},
		"delete a Secret":             {remove, ""},
		"create what looks like ours": {create("millwright.dev/actionset-run"), ""},
	})
	bindInNamespace(e, actions, account)
	check("in a namespace whose ActionSets it runs", map[string]attempt{
		"create a token":        {create(corev1.SecretTypeServiceAccountToken), token},
		"create another Secret": {create(corev1.SecretTypeOpaque), served},
		"delete a Secret":       {remove, served},
		"create a snapshot":     {create("millwright.dev/actionset-run"), ""},
	})
	// The policy is about the operator only.
	_, err = e.client.CrV1alpha1().ActionSets(e.namespace).
		Patch(t.Context(), "foreign", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: dryRun})
	if err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func secretNamed(name string, secretType corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: secretType}
}

// What an author of ActionSets tries in the namespace that the operator serves, and in that of an application.
func TestActionSetReach(t *testing.T) {
	e := newActionsEnv(t)
	shop := e.cluster.Namespace(t)
	bindApplicationRole(e, shop)
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "delete", "get", "patch"}})
	theirSet := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	if _, err := e.client.CrV1alpha1().ActionSets(shop).Create(t.Context(), theirSet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := secretNamed("token", corev1.SecretTypeServiceAccountToken)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	for _, secret := range []*corev1.Secret{token, secretNamed("credentials", corev1.SecretTypeOpaque)} {
		if _, err := e.kube.CoreV1().Secrets(shop).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.kube.CoreV1().Secrets(e.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.run(nil)
	const (
		theirs = "{group: cr.kanister.io, apiVersion: v1alpha1, resource: actionsets, namespace: $SHOP, name: theirs}"
		create = "{func: KubeOps, name: go, args: {operation: create, spec: '{apiVersion: v1, kind: Secret, metadata: {name: $ME, namespace: %s}, type: %s}'}}"
		remove = "{func: KubeOps, name: go, args: {operation: delete, objectReference: {apiVersion: v1, resource: secrets, namespace: %s, name: %s}}}"
	)
	of := func(format string, values ...string) string {
		for _, value := range values {
			format = strings.Replace(format, "%s", value, 1)
		}
		return format
	}
	for name, test := range map[string]struct{ phase, want string }{
		"patch-a-set":     {"{func: KubeOps, name: go, args: {operation: patch, objectReference: " + theirs + ", spec: '{spec: {actions: [], cancel: true}}'}}", "in another namespace"},
		"wait-for-a-set":  {"{func: Wait, name: go, args: {timeout: 1m, conditions: {allOf: [{condition: 'true', objectReference: " + theirs + "}]}}}", "in another namespace"},
		"create-a-token":  {of(create, "$SHOP", "kubernetes.io/service-account-token"), "is a token of a ServiceAccount"},
		"create-a-secret": {of(create, "$SHOP", "Opaque"), ""},
		"served-secret":   {of(create, "$NS", "Opaque"), "in a namespace whose ActionSets the operator runs"},
		"delete-served":   {of(remove, "$NS", "credentials"), "in a namespace whose ActionSets the operator runs"},
		"delete-snapshot": {of(remove, "$NS", "actionset-run-x"), "has the name of a snapshot"},
		"wait-for-a-token": {"{func: Wait, name: go, args: {timeout: 2s, conditions: {allOf: [{condition: 'true', objectReference: " +
			"{apiVersion: v1, resource: secrets, namespace: $SHOP, name: token}}]}}}", "is a token of a ServiceAccount"},
	} {
		e.blueprint(name, goPhases(strings.ReplaceAll(test.phase, "$SHOP", shop)))
		e.actionSet(name)
		e.wantRefusal(name, test.want)
	}
	e.blueprint("reads", goPhases("{func: KubeOps, name: go, args: {operation: create, namespace: $NS, "+
		"spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: reads}, data: {token: \"{{ .Secrets.s.Data.token }}\"}}'}}"))
	e.actionSet("subject", "{name: go, blueprint: reads, object: "+strings.ReplaceAll(theirs, "$SHOP", shop)+"}")
	e.wantRefusal("subject", "in another namespace")
	for name, namespace := range map[string]string{"named-token": shop, "token-of-ours": e.namespace} {
		e.actionSet(name, "{name: go, blueprint: reads, object: {kind: Namespace, name: $NS, namespace: $NS}, secrets: {s: {name: token, namespace: "+namespace+"}}}")
		e.wantRefusal(name, "is a token of a ServiceAccount")
	}
	if got := e.configMap("reads"); got != nil {
		t.Errorf("a token was read into %v", got)
	}
}

// wantRefusal waits for the end of an ActionSet, which has failed with a message that has this text, or is complete if it is "".
func (e *actionsEnv) wantRefusal(name, want string) {
	e.Helper()
	set := e.awaitEnd(name)
	switch {
	case want == "" && set.Status.State != v1alpha1.StateComplete:
		e.Errorf("%s: got %s, want it complete", name, summary(set))
	case want != "" && (set.Status.State != v1alpha1.StateFailed || !strings.Contains(set.Status.Error.Message, want)):
		e.Errorf("%s: got %s, want it failed with an error that has %q", name, summary(set), want)
	}
}
