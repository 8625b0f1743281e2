// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// actionsEnv is the environment of a test of ActionSets: a namespace of its own, an account with the rights that the guide asks users to
// grant, and a node if the test starts one.
type actionsEnv struct {
	*env
	account *testcluster.Account
	node    *testNode
}

// newActionsEnv returns an environment in which no controller runs yet. The test runs in parallel with others.
func newActionsEnv(t *testing.T) *actionsEnv {
	t.Helper()
	t.Parallel()
	cluster := testcluster.Shared(t)
	e := &actionsEnv{env: newEnv(t, cluster), account: actions.account(t, cluster)}
	bindInNamespace(e.env, actions, e.account)
	// The phases of most tests create, patch and delete ConfigMaps.
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "delete", "get", "patch"}})
	return e
}

// grantForKubeOps grants the rules to the operator, as users do who want KubeOps to work on objects of a kind, and waits until the API
// server knows. The rules hold in the whole cluster, so that an object that does not exist anywhere is reported as not found.
func (e *actionsEnv) grantForKubeOps(rules ...rbacv1.PolicyRule) {
	e.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: e.namespace + "-"}, Rules: rules}
	role, err := e.kube.RbacV1().ClusterRoles().Create(e.Context(), role, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	_, err = e.kube.RbacV1().ClusterRoleBindings().Create(e.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: string(actions)}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for _, r := range rightsOf(rules) {
		e.cluster.AwaitRight(e, e.account, r.attributes())
	}
}

// startNode starts a node for the Pods of the test.
func (e *actionsEnv) startNode(programs map[string]program) *testNode {
	e.Helper()
	e.node = startNode(e.env, programs)
	return e.node
}

// actionsProcess is an ActionSet controller in this process. The API server sees it as a process of its own.
type actionsProcess struct {
	// stop ends the controller as a signal does. kill breaks all its connections first.
	stop, kill func()
	// proxy forwards its requests to the API server.
	proxy *faultproxy.Proxy
}

// run starts a controller for the namespace of the test. It runs until it is stopped. The journal, if any, records its requests.
func (e *actionsEnv) run(journal *faultproxy.Journal) *actionsProcess {
	e.Helper()
	if journal == nil {
		journal = &faultproxy.Journal{}
	}
	proxy, kubeconfig := startProxy(e, "actions", e.account.Config, journal)
	options := manager.NewOptions()
	options.Kubeconfig = kubeconfig
	options.Controllers, options.Namespace = actions.controllers(e.T), e.namespace
	options.LeaderElect, options.ServingAddress = false, ""
	stop := startManager(e, options)
	end := sync.OnceFunc(func() {
		if err := stop(); err != nil {
			e.Errorf("controller: %v", err)
		}
		proxy.Close()
	})
	e.Cleanup(end)
	return &actionsProcess{stop: end, kill: func() { proxy.Refuse(); end() }, proxy: proxy}
}

// text replaces $NS and $ME in a manifest by the namespace of the test and the name.
func (e *actionsEnv) text(name, manifest string) string {
	return strings.NewReplacer("$NS", e.namespace, "$ME", name).Replace(manifest)
}

// blueprint creates a Blueprint with these actions in YAML; see text.
func (e *actionsEnv) blueprint(name, actions string) *v1alpha1.Blueprint {
	e.Helper()
	b := &v1alpha1.Blueprint{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(e.text(name, actions)), &b.Actions); err != nil {
		e.Fatalf("Blueprint %s: %v", name, err)
	}
	created, err := e.client.CrV1alpha1().Blueprints(e.namespace).Create(e.Context(), b, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

// goOnNamespace runs the action go of the Blueprint of the same name, with the namespace of the test as its subject.
const goOnNamespace = "{name: go, blueprint: $ME, object: {kind: Namespace, name: $NS, namespace: $NS}}"

// actionSet creates an ActionSet; see newSet.
func (e *actionsEnv) actionSet(name string, actions ...string) *v1alpha1.ActionSet {
	e.Helper()
	return e.createSet(e.newSet(name, actions...))
}

// newSet returns an ActionSet with these actions in YAML; see text. If the test has a node, its Pods run there.
func (e *actionsEnv) newSet(name string, actions ...string) *v1alpha1.ActionSet {
	e.Helper()
	set := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: &v1alpha1.ActionSetSpec{}}
	if len(actions) == 0 {
		actions = []string{goOnNamespace}
	}
	for _, text := range actions {
		var action v1alpha1.ActionSpec
		if err := yaml.UnmarshalStrict([]byte(e.text(name, text)), &action); err != nil {
			e.Fatalf("ActionSet %s: %v", name, err)
		}
		if e.node != nil && action.PodOverride == nil {
			raw, err := json.Marshal(e.node.podOverride())
			if err != nil {
				e.Fatal(err)
			}
			action.PodOverride = &runtime.RawExtension{Raw: raw}
		}
		set.Spec.Actions = append(set.Spec.Actions, action)
	}
	return set
}

func (e *actionsEnv) createSet(set *v1alpha1.ActionSet) *v1alpha1.ActionSet {
	e.Helper()
	created, err := e.client.CrV1alpha1().ActionSets(e.namespace).Create(e.Context(), set, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

// startRun creates a Blueprint whose action go has these phases, and an ActionSet that runs it.
func (e *actionsEnv) startRun(name, phases string) {
	e.Helper()
	e.blueprint(name, "go:\n"+phases)
	e.actionSet(name)
}
