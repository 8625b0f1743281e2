// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
)

const appliedHash, lastApplied = "millwright.dev/applied-hash", "metacontroller.k8s.io/last-applied-configuration"

// serverSide is the spec configMaps with server-side apply.
const serverSide = configMaps + "applyStrategy: server-side-apply\n"

// inSharedApplyingEngine is inSharedEngine with the right that server-side apply needs.
func inSharedApplyingEngine(t *testing.T) *engineEnv {
	t.Helper()
	e := inSharedEngine(t)
	e.grantApply("", "configmaps")
	e.grantApply("apps", "deployments")
	return e
}

func (e *engineEnv) grantApply(group, resource string) {
	e.Helper()
	e.grantEngine(rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"patch"}})
}

// managersOf returns who manages fields of an object, and how: "metacontroller Apply".
func managersOf(o *unstructured.Unstructured) (managers []string) {
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" {
			managers = append(managers, entry.Manager+" "+string(entry.Operation))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(managers)))
}

func TestCompositeServerSideApply(t *testing.T) {
	e := inSharedApplyingEngine(t)
	deployment := func(labels, container string) {
		e.hook.Wants(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {%s}}, spec: {replicas: 0, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}, creationTimestamp: null}, spec: {containers: [{name: c, image: one, resources: {limits: {cpu: 1000m}}%s}]}}}}`, labels, container))
	}
	deployment("mine: a, old: a", ", env: [{name: OLD, value: a}, {name: KEPT, value: a}]")
	e.serves(with("InPlace", "apps/v1", "deployments") + "applyStrategy: server-side-apply\n")
	parent := e.parent("web")
	child := e.awaitChild("Deployment.apps/v1", "a", ownedBy(parent))
	if got := managersOf(child); !slices.Equal(got, []string{"metacontroller Apply"}) {
		t.Errorf("managers of the fields: got %q, want Metacontroller's alone", got)
	}
	if annotations := child.GetAnnotations(); annotations[lastApplied] != "" || annotations[appliedHash] == "" {
		t.Errorf("annotations: got %v, want the hash alone", annotations)
	}
	e.change("Deployment.apps/v1", "a", "{metadata: {labels: {theirs: b}}}")
	e.change("Deployment.apps/v1", "a", "{status: {replicas: 0, observedGeneration: 1}}", "status")
	e.calm()
	deployment("mine: a", ", env: [{name: KEPT, value: b}]")
	e.change(widget, "web", "{spec: {new: true}}")
	e.awaitChild("Deployment.apps/v1", "a", has(map[string]any{"mine": "a", "theirs": "b", "controller-uid": string(parent.GetUID())}, "metadata", "labels"),
		func(o *unstructured.Unstructured) string {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if got := fmt.Sprint(containers[0].(map[string]any)["env"]); got != "[map[name:KEPT value:b]]" {
				return "env of the container: " + got
			}
			return ""
		})
	e.awaitEventOn(parent, "ChildrenUpdated", "a")
	if events := e.countEvents(parent, "ChildrenStuck"); events > 0 {
		t.Errorf("got an event that changes do not last")
	}
}

// Drift is repaired for kinds without a generation, too, and what the hook does not desire is left alone.
func TestCompositeApplyRepairs(t *testing.T) {
	e := inSharedApplyingEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(serverSide)
	e.parent("web", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "web")
	e.change("ConfigMap", "web", "{data: {who: intruder, theirs: kept}}")
	e.awaitChild("ConfigMap", "web", has(map[string]any{"who": "me", "theirs": "kept"}, "data"))
	e.remove("ConfigMap", "web")
	e.awaitChild("ConfigMap", "web", has(map[string]any{"who": "me"}, "data"))
}

// Another process applies nothing again. A change of the strategy writes nothing until the hook desires something else; then nothing is orphaned.
func TestCompositeSwitchOfStrategy(t *testing.T) {
	t.Parallel()
	for _, from := range []v1alpha1.ApplyStrategy{v1alpha1.ApplyDynamic, v1alpha1.ApplyServerSide} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			e := newEngineEnv(t)
			e.grantApply("", "configmaps")
			to := v1alpha1.ApplyDynamic
			if from == to {
				to = v1alpha1.ApplyServerSide
			}
			applies := func(strategy v1alpha1.ApplyStrategy) func(*manager.Options) {
				return func(options *manager.Options) { setFlag(t, options, "apply-strategy", string(strategy)) }
			}
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a, old: a}}, data: {keep: a, drop: a}}")
			stop := e.run(&faultproxy.Journal{}, applies(from))
			e.serves(configMaps)
			e.parent("web")
			e.awaitChild("ConfigMap", "a")
			e.change("ConfigMap", "a", "{metadata: {labels: {theirs: b}}, data: {theirs: b}}")
			e.calm()
			stop()
			before := e.look("ConfigMap", "a")
			for _, strategy := range []v1alpha1.ApplyStrategy{from, to} {
				calls := len(e.hook.Calls())
				stop = e.run(&faultproxy.Journal{}, applies(strategy))
				e.awaitCalls(calls + 1)
				e.calm()
				if now := e.look("ConfigMap", "a"); now.GetResourceVersion() != before.GetResourceVersion() {
					t.Errorf("%s: the child was written:\n%v", strategy, now.Object)
				}
				if strategy == from {
					stop()
				}
			}
			e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: a}}, data: {keep: a, new: a}}")
			e.change(widget, "web", "{spec: {new: true}}")
			after := e.awaitChild("ConfigMap", "a", has(map[string]any{"keep": "a", "new": "a", "theirs": "b"}, "data"))
			labels := after.GetLabels()
			delete(labels, "controller-uid")
			if got := fmt.Sprint(labels); got != "map[mine:a theirs:b]" {
				t.Errorf("labels: got %s, want mine and theirs", got)
			}
			if after.GetUID() != before.GetUID() {
				t.Error("the child was created again")
			}
			hasHash := after.GetAnnotations()[appliedHash] != ""
			if hasRecord := after.GetAnnotations()[lastApplied] != ""; hasHash != (to == v1alpha1.ApplyServerSide) || hasRecord == hasHash {
				t.Errorf("annotations: got %v, want the record of %s alone", after.GetAnnotations(), to)
			}
		})
	}
}

// An object of the child's name that has all fields of the child, and others, is not taken over.
func TestCompositeApplyTakesNoForeignObject(t *testing.T) {
	e := inSharedApplyingEngine(t)
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {who: me}}")
	foreign := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {who: me, theirs: a}}")
	e.serves(serverSide)
	e.awaitEventOn(e.parent("web"), "ErrResourceExists", "a")
	if now := e.look("ConfigMap", "a"); now.GetResourceVersion() != foreign.GetResourceVersion() {
		t.Errorf("the foreign object was changed: %v", now.Object)
	}
	e.remove("ConfigMap", "a")
	e.awaitChild("ConfigMap", "a", has(map[string]any{"who": "me"}, "data"))
}

// Objects that Metacontroller has applied are continued.
func TestCompositeApplyContinuesPeers(t *testing.T) {
	e := inSharedApplyingEngine(t)
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {keep: a}}")
	parent := e.parent("web")
	body := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {controller-uid: %[1]s},
  ownerReferences: [{apiVersion: test.example.com/v1, kind: Widget, name: web, uid: %[1]s, controller: true, blockOwnerDeletion: true}]}, data: {keep: a, drop: a}}`, parent.GetUID())
	if _, err := e.at("ConfigMap").Patch(t.Context(), "a", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "metacontroller"}); err != nil {
		t.Fatal(err)
	}
	e.serves(serverSide)
	e.awaitChild("ConfigMap", "a", has(map[string]any{"keep": "a"}, "data"))
}

// A child of Metacontroller's server-side apply has no record. It is created again only if the hook desires something else, although the API server has
// written values in another way.
func TestCompositeApplyRecreatesNoneOfPeers(t *testing.T) {
	e := inSharedApplyingEngine(t)
	child := func(cpu string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: one, resources: {limits: {cpu: %s}}}]}}}}`, cpu)
	}
	e.hook.Wants(t, child("1000m"))
	parent := e.parent("web")
	body := object(t, "%s", child("1000m"))
	body.SetLabels(map[string]string{"controller-uid": string(parent.GetUID())})
	body.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(parent, parent.GroupVersionKind())})
	before, err := e.at("Deployment.apps/v1").Apply(t.Context(), "a", body, metav1.ApplyOptions{FieldManager: "metacontroller"})
	if err != nil {
		t.Fatal(err)
	}
	e.serves(with("Recreate", "apps/v1", "deployments") + "applyStrategy: server-side-apply\n")
	after := e.awaitChild("Deployment.apps/v1", "a", func(o *unstructured.Unstructured) string {
		if o.GetAnnotations()[appliedHash] == "" {
			return "the child has no record"
		}
		return ""
	})
	if after.GetUID() != before.GetUID() {
		t.Error("the child was created again")
	}
	e.hook.Wants(t, child("2"))
	e.change(widget, "web", "{spec: {new: true}}")
	e.awaitChild("Deployment.apps/v1", "a", func(o *unstructured.Unstructured) string {
		if o.GetUID() == before.GetUID() {
			return "the child was not created again"
		}
		return ""
	})
}

// What the schema of a kind does not allow is the hook's mistake. A child that dynamic apply has created with it is not deleted.
func TestCompositeApplyRefusedBySchema(t *testing.T) {
	e := inSharedApplyingEngine(t)
	child := func(image string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, typo: a, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: %s}]}}}}`, image)
	}
	e.hook.Wants(t, child("one"))
	e.serves(with("Recreate", "apps/v1", "deployments"))
	e.parent("web")
	before := e.awaitChild("Deployment.apps/v1", "a")
	e.change(composite, e.name, "{spec: {applyStrategy: server-side-apply}}")
	e.awaitReason("Serving") // with the new strategy
	e.hook.Wants(t, child("two"))
	e.change(widget, "web", "{spec: {new: true}}")
	if message := e.awaitReason("HookChildInvalid"); !strings.Contains(message, ".spec.typo: field not declared in schema") {
		t.Errorf("message of the condition: got %s, want the field in it", message)
	}
	if now := e.look("Deployment.apps/v1", "a"); now == nil || now.GetUID() != before.GetUID() {
		t.Errorf("the child was deleted: it is %v", now)
	}
}

// What the annotation of dynamic apply cannot record is applied server-side, as the message advises.
func TestCompositeApplyOfLargeChild(t *testing.T) {
	e := inSharedApplyingEngine(t)
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {text: "+strings.Repeat("x", 300<<10)+"}}")
	e.serves(configMaps)
	e.parent("web")
	if message := e.awaitReason("TooLarge"); !strings.Contains(message, "spec.applyStrategy to server-side-apply") {
		t.Errorf("message of the condition: got %s, want the other strategy in it", message)
	}
	e.change(composite, e.name, "{spec: {applyStrategy: server-side-apply}}")
	e.awaitChild("ConfigMap", "a")
	e.awaitReason("Serving")
}

// Without the right to patch, the condition has the rule to add.
func TestCompositeApplyMissingRight(t *testing.T) {
	e := inSharedEngine(t)
	requests[engine].expectForbidden(schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"})
	e.hook.Wants(t, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}}}")
	e.serves(with("InPlace", "networking.k8s.io/v1", "networkpolicies") + "applyStrategy: server-side-apply\n")
	e.parent("web")
	if message := e.awaitReason("Forbidden"); !strings.Contains(message, `verbs: [patch]`) {
		t.Errorf("message of the condition: got %s, want the missing verb in it", message)
	}
	e.grantApply("networking.k8s.io", "networkpolicies")
	e.awaitChild("NetworkPolicy.networking.k8s.io/v1", "a")
	e.awaitReason("Serving")
}

// A child with a method that creates again is created again only if a value changes.
func TestCompositeApplyWithRecreate(t *testing.T) {
	e := inSharedApplyingEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(with("Recreate", "v1", "configmaps") + "applyStrategy: server-side-apply\n")
	e.parent("web", "{spec: {who: me}}")
	before := e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
	e.change(widget, "web", "{spec: {who: you}}")
	after := e.awaitChild("ConfigMap", "web", has("you", "data", "who"))
	if after.GetUID() == before.GetUID() {
		t.Error("the child was updated, want it created again")
	}
	e.change(widget, "web", "{metadata: {labels: {more: x}}}")
	e.calm()
	if now := e.look("ConfigMap", "web"); now.GetUID() != after.GetUID() {
		t.Error("the child was created again without a change")
	}
}
