// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// decorator is the kind DecoratorController; see at.
const decorator = "DecoratorController.metacontroller.k8s.io/v1alpha1"

// decoratedBy is the annotation of attachments. It is the same as Metacontroller's.
const decoratedBy = "metacontroller.k8s.io/decorator-controller"

// decoratorEnv is the environment of a test of DecoratorControllers. Its targets are the parents of an engineEnv.
type decoratorEnv struct{ *engineEnv }

var targetsGranted struct {
	sync.Mutex
	done bool
}

// newDecoratorEnv returns an environment in which no engine runs yet.
func newDecoratorEnv(t *testing.T) decoratorEnv {
	t.Helper()
	return decoratorEnv{newEngineEnv(t)}.granted()
}

// decorating returns an environment for a parallel test that shares its engine with other tests.
func decorating(t *testing.T) decoratorEnv {
	t.Helper()
	return decoratorEnv{inSharedEngine(t)}.granted()
}

// granted gives engines the rights to the targets that most tests share.
func (e decoratorEnv) granted() decoratorEnv {
	e.Helper()
	targetsGranted.Lock()
	defer targetsGranted.Unlock()
	if !targetsGranted.done {
		var rules []rbacv1.PolicyRule
		for _, of := range []string{"widgets.test.example.com", "clusterwidgets.test.example.com", "pods", "configmaps", "services", "namespaces", "statefulsets.apps"} {
			resource, group, _ := strings.Cut(of, ".")
			rules = append(rules, rightsOnTargets(group, resource)...)
			rules = append(rules, rightToOwn(group, resource))
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource + "/status"}, Verbs: []string{"patch"}})
		}
		e.grantEngine(append(rules, rightsOnChildren("", "secrets")...)...)
		targetsGranted.done = true
	}
	return e
}

// decorates creates the test's DecoratorController. Its spec is YAML in which HOOK stands for the hook's address. Each rule for targets without
// a label selector selects those of the test.
func (e decoratorEnv) decorates(spec string) *unstructured.Unstructured {
	e.Helper()
	return e.alsoDecorates(e.name, spec)
}

// alsoDecorates creates a DecoratorController of that name; see decorates.
func (e decoratorEnv) alsoDecorates(name, spec string) *unstructured.Unstructured {
	e.Helper()
	created, err := e.at(decorator).Create(e.Context(), e.decorator(name, spec), metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.cleanUp(decorator, created.GetName())
	return created
}

// decorator returns a DecoratorController; see decorates.
func (e decoratorEnv) decorator(name, spec string) *unstructured.Unstructured {
	e.Helper()
	dc := object(e, "{apiVersion: metacontroller.k8s.io/v1alpha1, kind: DecoratorController, metadata: {name: %s, labels: {%s: %s}}}", name, engineTest, e.servedBy)
	dc.Object["spec"] = object(e, "%s", strings.ReplaceAll(spec, "HOOK", e.hook.URL)).Object
	resources, _ := dc.Object["spec"].(map[string]any)["resources"].([]any)
	for _, rule := range resources {
		if rule := rule.(map[string]any); rule["labelSelector"] == nil {
			rule["labelSelector"] = map[string]any{"matchLabels": map[string]any{testLabel: e.namespace}}
		}
	}
	return dc
}

// widgets is a spec: the targets are Widgets, the attachments ConfigMaps that are updated in place.
const widgets = `
resources: [{apiVersion: test.example.com/v1, resource: widgets}]
attachments: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// alsoFinalized returns the spec with a finalize hook.
func alsoFinalized(spec string) string {
	return strings.Replace(spec, "hooks: {", "hooks: {finalize: {webhook: {url: HOOK/finalize}}, ", 1)
}

// configMap returns a ConfigMap in an answer.
func configMap(name string, data tree) tree {
	return tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": name}, "data": data}
}

// oneAttachment answers with a ConfigMap that has the name of the target.
func oneAttachment(call *hookCall) any {
	var data tree
	if who := call.spec("who"); who != nil {
		data = tree{"who": who}
	}
	return tree{"attachments": list{configMap(call.name(), data)}}
}

// detaches answers finalize hooks: it deletes the attachments first.
func detaches(call *hookCall) any {
	if !call.Finalizing {
		return oneAttachment(call)
	}
	return tree{"attachments": list{}, "finalized": len(call.Attachments["ConfigMap.v1"]) == 0}
}

// mark returns the finalizer of the test's DecoratorController on targets. It is the same as Metacontroller's.
func (e decoratorEnv) mark() string { return "metacontroller.io/decoratorcontroller-" + e.name }

// attachedTo checks that an object is owned by the target, and annotated as an attachment of the DecoratorController.
func attachedTo(target *unstructured.Unstructured, name string) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		if complaint := ownedBy(target)(o); complaint != "" {
			return complaint
		}
		return has(name, "metadata", "annotations", decoratedBy)(o)
	}
}

// awaitDecorator waits until the condition Ready of the test's DecoratorController has the reason, and returns its message.
func (e decoratorEnv) awaitDecorator(reason string) (message string) {
	e.Helper()
	return e.awaitDecoratorOf(e.name, reason)
}

func (e decoratorEnv) awaitDecoratorOf(name, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		dc := typed[v1alpha1.DecoratorController](e, e.look(decorator, name))
		ready := meta.FindStatusCondition(dc.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != dc.Generation {
			return fmt.Sprintf("condition Ready of DecoratorController %s: got %+v, want reason %s", name, ready, reason)
		}
		if (ready.Status == metav1.ConditionTrue) != slices.Contains(servingReasons, reason) {
			e.Fatalf("condition Ready: got %+v, want it true only with the reason Serving", ready)
		}
		message = ready.Message
		return ""
	})
	return message
}

// sentFor returns the requests for the test's namespace, or for the object if it has none, since the journal had that length, by verb and resource.
func (e decoratorEnv) sentFor(journal *faultproxy.Journal, since int) map[string]int {
	sent := map[string]int{}
	for _, entry := range journal.Entries()[since:] {
		if entry.Namespace != e.namespace && entry.Name != e.name || slices.Contains([]string{"watch", "list"}, entry.Verb) {
			continue
		}
		if entry.Resource == "decoratorcontrollers" {
			continue
		}
		sent[strings.TrimSuffix(entry.Verb+" "+entry.Resource+"/"+entry.Subresource, "/")]++
	}
	return sent
}

// awaitSent waits until these requests are what was sent; see sentFor. Events are sent some time after the rest, and requests never become fewer.
func (e decoratorEnv) awaitSent(journal *faultproxy.Journal, since int, want map[string]int) {
	e.Helper()
	e.eventually(func() string { return cmp.Diff(want, e.sentFor(journal, since)) })
}
