// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	useless "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/testcluster"
)

func TestPrivilegesNoWildcards(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for _, d := range []deployment{core, engine, actions, farmOperator} {
		rules = append(rules, readRights(t, d).rules()...)
	}
	for _, rule := range rules {
		for _, names := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames} {
			if strings.Contains(strings.Join(names, " "), "*") {
				t.Errorf("got rule %s, want no wildcards", &rule)
			}
		}
		if len(rule.NonResourceURLs) > 0 {
			t.Errorf("got rule %s, want no paths: the tests do not check that they are used", &rule)
		}
	}
}

func TestPrivilegesOfDeployments(t *testing.T) {
	var found []deployment
	runs := map[string]deployment{}
	for _, shipped := range readDeployments(t, manifests) {
		d, spec := deployment(shipped.Name), shipped.Spec.Template.Spec
		found = append(found, d)
		hasLease := slices.Contains(spec.Containers[0].Args, "--leader-elect-lease-name="+string(d))
		if shipped.Namespace != accountNamespace || spec.ServiceAccountName != string(d) || !hasLease {
			t.Errorf("Deployment %s/%s: got account %s and arguments %s", shipped.Namespace, d, spec.ServiceAccountName, spec.Containers[0].Args)
		}
		for _, controller := range d.controllers(t) {
			if other := runs[controller]; other != "" {
				t.Errorf("controller %s: got Deployments %s and %s, want one", controller, other, d)
			}
			runs[controller] = d
		}
	}
	if diff := cmp.Diff([]deployment{actions, core, engine}, found); diff != "" {
		t.Errorf("Deployments of the manifests (-want +got):\n%s", diff)
	}
	for _, row := range manager.Descriptors() {
		if runs[row.Name] == "" {
			t.Errorf("controller %s: got no Deployment, want one", row.Name)
		}
	}
}

func TestPrivilegesJudge(t *testing.T) {
	request := func(verb, resource, subresource, decision string, code int32) *auditv1.Event {
		return &auditv1.Event{
			Verb:           verb,
			ObjectRef:      &auditv1.ObjectReference{Resource: resource, Subresource: subresource, Namespace: "shop", Name: "web"},
			ResponseStatus: &metav1.Status{Code: code},
			Annotations:    map[string]string{"authorization.k8s.io/decision": decision},
		}
	}
	ofGroup := func(event *auditv1.Event, group string) *auditv1.Event {
		event.ObjectRef.APIGroup = group
		return event
	}
	in := func(namespace string, event *auditv1.Event) *auditv1.Event {
		event.ObjectRef.Namespace = namespace
		return event
	}
	granted := slices.AppendSeq([]right{{"create", "", "pods"}, {"update", "", "pods/status"}}, maps.Keys(neverRequestedByCore))
	for name, test := range map[string]struct {
		requests []*auditv1.Event
		granted  []right
		some     bool // not all tests ran
		want     []string
	}{
		"all used": {
			requests: []*auditv1.Event{request("create", "pods", "", "allow", 201), request("update", "pods", "status", "allow", 200)},
			granted:  granted,
		},
		"forbidden": {
			requests: []*auditv1.Event{request("create", "pods", "", "allow", 201), request("delete", "pods", "", "forbid", 403)},
			granted:  granted,
			some:     true,
			want:     []string{`delete pods, object "web" in namespace "shop"`},
		},
		"refused by admission": {
			requests: []*auditv1.Event{request("create", "pods", "", "allow", 403), request("update", "pods", "status", "allow", 200)},
			granted:  granted,
		},
		"path forbidden": {
			requests: []*auditv1.Event{{
				Verb: "get", RequestURI: "/logs", ResponseStatus: &metav1.Status{Code: 403},
				Annotations: map[string]string{"authorization.k8s.io/decision": "forbid"},
			}},
			granted: granted,
			some:    true,
			want:    []string{"get /logs"},
		},
		"forbidden as expected": {
			requests: []*auditv1.Event{
				ofGroup(request("list", "carts", "", "forbid", 403), "shop.example.com"),
				ofGroup(request("list", "carts", "", "forbid", 403), "other.example.com"),
			},
			granted: granted,
			some:    true,
			want:    []string{"list carts.other.example.com"},
		},
		"forbidden in a deleted namespace": {
			requests: []*auditv1.Event{in("deleted", request("update", "pods", "", "forbid", 403)), in("other", request("create", "pods", "", "forbid", 403))},
			granted:  granted,
			some:     true,
			want:     []string{"create pods"},
		},
		"granted but not used": {
			requests: []*auditv1.Event{request("create", "pods", "", "allow", 201), request("update", "pods", "", "allow", 200)},
			granted:  granted,
			want:     []string{"update pods/status"},
		},
		"not all tests ran": {granted: granted, some: true},
		"obsolete exception": {
			requests: []*auditv1.Event{request("create", "pods", "", "allow", 201), request("update", "pods", "status", "allow", 200)},
			granted:  slices.DeleteFunc(slices.Clone(granted), func(r right) bool { return r.resource == "machines/finalizers" }),
			want:     []string{"machines/finalizers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := requestLog{neverRequested: neverRequestedByCore}
			log.expectForbidden(schema.GroupResource{Group: "shop.example.com", Resource: "carts"})
			log.expectForbiddenIn("deleted")
			for _, event := range test.requests {
				log.add(event)
			}
			complaints := log.complaints(test.granted, !test.some)
			if !slices.EqualFunc(complaints, test.want, strings.Contains) {
				t.Errorf("complaints (-want +got):\n%s", cmp.Diff(test.want, complaints))
			}
		})
	}
}

// The controller works only with the right: each case runs first without it, then with it.
func TestPrivilegesNeverRequested(t *testing.T) {
	cluster := testcluster.Shared(t)
	var rules []rbacv1.PolicyRule
	for _, role := range readRights(t, core).clusterRoles {
		rules = append(rules, role.Rules...)
	}
	for r, kind := range neverRequestedByCore {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, cluster)
			account := e.accountWith(without(rules, r))
			kubeconfig := account.WriteKubeconfig(t)
			runManagerWith(t, func(options *manager.Options) { options.Kubeconfig, options.Namespace = kubeconfig, e.namespace })
			var refusal string
			switch kind {
			case "HelloApp":
				e.createApp(helloApp("web", 1, func(spec *appsv1.HelloAppSpec) { spec.Port = 8080 }))
				refusal = e.awaitAppCondition("web", appsv1.ConditionReady, metav1.ConditionFalse, "Forbidden")
			case "ImmortalContainer":
				e.create(immortal("web"))
				refusal = e.awaitCondition("web", v1alpha1.ConditionReady, metav1.ConditionFalse, "Forbidden")
			case "Machine":
				e.createMachine(newMachine("web", 1))
				refusal = e.awaitMachineReason("web", useless.ReasonCreateFailed)
			}
			if !strings.Contains(refusal, "refers to a resource you can't set finalizers on") && !strings.Contains(refusal, "cannot create resource") {
				t.Errorf("message of the condition: got %s, want the missing right", refusal)
			}

			e.grant(rules)
			there := r.attributes()
			there.Namespace = e.namespace
			e.cluster.AwaitRight(t, account, there)
			// An edit leads to a sync before the backoff ends.
			e.kubectl("annotate", strings.ToLower(kind), "web", "note=granted")
			switch kind {
			case "HelloApp":
				e.awaitApp("web", 1)
			case "ImmortalContainer":
				e.awaitReady("web", 1)
			case "Machine":
				e.awaitMachine("web", 1)
			}
		})
	}
}

// accountWith creates an account in the test's namespace that has these rights there.
func (e *env) accountWith(rules []rbacv1.PolicyRule) *testcluster.Account {
	e.Helper()
	meta := metav1.ObjectMeta{Name: string(core)}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: meta}
	if _, err := e.kube.CoreV1().ServiceAccounts(e.namespace).Create(e.Context(), serviceAccount, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if _, err := e.kube.RbacV1().Roles(e.namespace).Create(e.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: string(core)},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: string(core)}},
	}
	if _, err := e.kube.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	account := e.cluster.Account(e, e.namespace, string(core))
	e.cluster.AwaitRight(e, account, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: e.namespace})
	return account
}

// grant replaces the rights of the account of accountWith.
func (e *env) grant(rules []rbacv1.PolicyRule) {
	e.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: string(core)}, Rules: rules}
	if _, err := e.kube.RbacV1().Roles(e.namespace).Update(e.Context(), role, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// without returns the rules without one right.
func without(rules []rbacv1.PolicyRule, r right) (left []rbacv1.PolicyRule) {
	for _, granted := range rightsOf(rules) {
		if granted != r {
			left = append(left, rbacv1.PolicyRule{Verbs: []string{granted.verb}, APIGroups: []string{granted.group}, Resources: []string{granted.resource}})
		}
	}
	return left
}
