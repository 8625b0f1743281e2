// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/sha1" // #nosec G505 -- the names of ControllerRevisions are Metacontroller's
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// rolling is a spec: the parents are Widgets, whose children are moved to another spec.template one by one.
const rolling = `
generateSelector: true
parentResource:
  apiVersion: test.example.com/v1
  resource: widgets
  revisionHistory: {fieldPaths: [spec.template]}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: RollingInPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// rollingPods is a spec as rolling, with Pods that are created again and have to be ready.
const rollingPods = `
generateSelector: true
parentResource:
  apiVersion: test.example.com/v1
  resource: widgets
  revisionHistory: {fieldPaths: [spec.template]}
childResources:
- apiVersion: v1
  resource: pods
  updateStrategy: {method: RollingRecreate, statusChecks: {conditions: [{type: Ready, status: "True"}]}}
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

const controllerRevision = "ControllerRevision.metacontroller.k8s.io/v1alpha1"

// templateOf returns spec.template of a parent, "none" if it has none.
func templateOf(parent map[string]any) string {
	template, found, _ := unstructured.NestedString(parent, "spec", "template")
	if !found {
		return "none"
	}
	return template
}

// sizeOf returns spec.size of a parent.
func sizeOf(parent map[string]any) int {
	size, _, _ := unstructured.NestedFieldNoCopy(parent, "spec", "size")
	number, _ := size.(float64)
	return int(number)
}

// setOfConfigMaps desires ConfigMaps with the template as data, the last first.
func setOfConfigMaps(call *hookCall) any {
	children := list{}
	for i := sizeOf(call.Parent) - 1; i >= 0; i-- {
		children = append(children, tree{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": fmt.Sprintf("c-%d", i)}, "data": tree{"template": templateOf(call.Parent)},
		})
	}
	return tree{"children": children}
}

// setOfPods desires Pods with the template as an argument. No node runs them, so that the test sets their conditions.
func setOfPods(call *hookCall) any {
	children := list{}
	for i := range sizeOf(call.Parent) {
		children = append(children, tree{
			"apiVersion": "v1", "kind": "Pod", "metadata": tree{"name": fmt.Sprintf("p-%d", i)},
			"spec": tree{"schedulerName": "none", "containers": list{tree{"name": "main", "image": "none", "args": list{templateOf(call.Parent)}}}},
		})
	}
	return tree{"children": children, "status": tree{"pods": len(call.Children["Pod.v1"])}}
}

// revisions returns the ControllerRevisions of the test by the template that each records.
func (e *engineEnv) revisions() map[string]*v1alpha1.ControllerRevision {
	e.Helper()
	records, err := e.client.MetacontrollerV1alpha1().ControllerRevisions(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	found := map[string]*v1alpha1.ControllerRevision{}
	for i := range records.Items {
		var patch map[string]any
		if err := json.Unmarshal(records.Items[i].ParentPatch.Raw, &patch); err != nil {
			e.Fatal(err)
		}
		found[templateOf(patch)] = &records.Items[i]
	}
	return found
}

// namesIn returns the names of the children that a ControllerRevision claims.
func namesIn(record *v1alpha1.ControllerRevision) (names []string) {
	if record == nil {
		return nil
	}
	for _, of := range record.Children {
		names = append(names, of.Names...)
	}
	return names
}

// updated returns a check of the condition Updated of a parent.
func updated(status, reason, message string) func(*unstructured.Unstructured) string {
	return func(parent *unstructured.Unstructured) string {
		conditions, _, _ := unstructured.NestedSlice(parent.Object, "status", "conditions")
		for _, c := range conditions {
			condition := c.(map[string]any)
			if condition["type"] == "Updated" && condition["status"] == status && condition["reason"] == reason &&
				strings.Contains(condition["message"].(string), message) {
				return ""
			}
		}
		return fmt.Sprintf("the conditions are %v, want Updated %s, %s with %q", conditions, status, reason, message)
	}
}

// hasTransitionTime is a check of the conditions of a parent.
func hasTransitionTime(parent *unstructured.Unstructured) string {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	tree, _, _ := unstructured.NestedMap(parent.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &status); err != nil {
		return err.Error()
	}
	if len(status.Conditions) != 1 || status.Conditions[0].LastTransitionTime.IsZero() {
		return fmt.Sprintf("the conditions are %v", status.Conditions)
	}
	return ""
}

// watchChildren records the changes of children, until what has happened is read.
func (e *engineEnv) watchChildren(kind string) (happened func() []watch.Event) {
	e.Helper()
	all, err := e.at(kind).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	watched, err := e.at(kind).Watch(e.Context(), metav1.ListOptions{ResourceVersion: all.GetResourceVersion()})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(watched.Stop)
	return func() (events []watch.Event) {
		// What the API server has written before this object is recorded when the object is.
		fence := object(e, "{apiVersion: v1, kind: %s, metadata: {generateName: fence-}, spec: {schedulerName: none, containers: [{name: main, image: none}]}}", kind)
		if kind != "Pod" {
			delete(fence.Object, "spec")
		}
		created, err := e.at(kind).Create(e.Context(), fence, metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		for event := range watched.ResultChan() {
			if event.Object.(*unstructured.Unstructured).GetUID() == created.GetUID() {
				return events
			}
			events = append(events, event)
		}
		e.Fatal("the watch ended")
		return nil
	}
}

// namesOf returns the type and the object's name of events, except those of some types.
func namesOf(events []watch.Event, without ...watch.EventType) (names []string) {
	for _, event := range events {
		if !slices.Contains(without, event.Type) {
			names = append(names, string(event.Type)+" "+event.Object.(*unstructured.Unstructured).GetName())
		}
	}
	return names
}

func revisionName(parent *unstructured.Unstructured, patch string) string {
	return fmt.Sprintf("widgets.test.example.com-%x", sha1.Sum([]byte(string(parent.GetUID())+patch))) // #nosec G401
}

func TestCompositeRollsInOrderOfHook(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	parent := e.parent("web", "{spec: {size: 3, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3 children have the latest revision; latest ControllerRevision: widgets.test"))
	e.awaitChild(widget, "web", hasTransitionTime) // the schema of many parents requires it
	record := e.revisions()["one"]
	if record == nil || record.Name != revisionName(parent, `{"spec":{"template":"one"}}`) {
		t.Fatalf("the ControllerRevisions are %v", e.revisions())
	}
	wantLabels := map[string]string{
		"controller-uid": string(parent.GetUID()), "metacontroller.k8s.io/apiGroup": "test.example.com", "metacontroller.k8s.io/resource": "widgets",
	}
	if diff := cmp.Diff(wantLabels, record.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantChildren := []v1alpha1.ControllerRevisionChildren{{Kind: "ConfigMap", Names: []string{"c-0", "c-1", "c-2"}}}
	if diff := cmp.Diff(wantChildren, record.Children); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(record); owner == nil || owner.UID != parent.GetUID() {
		t.Errorf("owners: %v", record.OwnerReferences)
	}

	happened := e.watchChildren("ConfigMap")
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, `{"spec":{"template":"two"}}`)))
	if diff := cmp.Diff([]string{"MODIFIED c-2", "MODIFIED c-1", "MODIFIED c-0"}, namesOf(happened())); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}
	e.eventually(func() string {
		if left := e.revisions(); len(left) != 1 || left["two"] == nil {
			return fmt.Sprintf("the ControllerRevisions are %v", slices.Sorted(maps.Keys(left)))
		}
		return ""
	})
	if out := e.kubectl("get", "controllerrevisions.metacontroller.k8s.io", "--namespace", e.namespace); !strings.Contains(out, "web") || !strings.Contains(out, "3 of 3") {
		t.Errorf("kubectl get controllerrevisions:\n%s", out)
	}
	e.calm()
}

// TestCompositeRollsWhatIsStoredOtherwise: the API server stores 1000m as 1, so that no child is ever as it is desired.
func TestCompositeRollsWhatIsStoredOtherwise(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		children := list{}
		for i := range sizeOf(call.Parent) {
			children = append(children, tree{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": tree{"name": fmt.Sprintf("d-%d", i)},
				"spec": tree{
					"replicas": 0, "selector": tree{"matchLabels": tree{"app": "web"}},
					"template": tree{"metadata": tree{"labels": tree{"app": "web"}}, "spec": tree{"containers": list{tree{
						"name": "main", "image": templateOf(call.Parent), "resources": tree{"limits": tree{"cpu": "1000m"}},
					}}}},
				},
			})
		}
		return tree{"children": children}
	})
	e.serves(strings.Replace(rolling, "apiVersion: v1, resource: configmaps", "apiVersion: apps/v1, resource: deployments", 1))
	parent := e.parent("web", "{spec: {size: 3, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
	for _, template := range []string{"two", "three"} {
		e.change(widget, "web", fmt.Sprintf("{spec: {template: %s}}", template))
		e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, fmt.Sprintf(`{"spec":{"template":"%s"}}`, template))))
	}
	e.calm()
}

func TestCompositeRollWaitsForReadyPods(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfPods)
	e.serves(rollingPods)
	ready := func(pod, status string) {
		e.change("Pod", pod, fmt.Sprintf(`{status: {conditions: [{type: Ready, status: "%s"}]}}`, status), "status")
	}
	has := func(pod, template string) {
		e.awaitChild("Pod", pod, func(o *unstructured.Unstructured) string {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
			if got := containers[0].(map[string]any)["args"]; fmt.Sprint(got) != "["+template+"]" {
				return fmt.Sprintf("Pod %s has %v, want %s", pod, got, template)
			}
			return ""
		})
	}
	e.parent("web", "{spec: {size: 3, template: one}}")
	for i := range 3 {
		e.awaitChild("Pod", fmt.Sprintf("p-%d", i))
		ready(fmt.Sprintf("p-%d", i), "True")
	}
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
	happened := e.watchChildren("Pod")
	e.change(widget, "web", "{spec: {template: two}}")
	has("p-0", "two")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting",
		"1 of 3 children have the latest revision; waiting: Pod p-0 is not ready: it has no condition Ready"))
	ready("p-0", "False")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting",
		`waiting: Pod p-0 is not ready: the status of its condition Ready is "False", and must be "True"`))
	if diff := cmp.Diff([]string{"DELETED p-0", "ADDED p-0"}, namesOf(happened(), watch.Modified)); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}

	// An edit turns the update: the Pod that has the edit before is the one that is disturbed.
	happened = e.watchChildren("Pod")
	e.change(widget, "web", "{spec: {template: three}}")
	has("p-0", "three")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 3"))
	if diff := cmp.Diff([]string{"DELETED p-0", "ADDED p-0"}, namesOf(happened(), watch.Modified)); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}

	// The records of older revisions are deleted by another client: the other Pods wait for their turn all the same.
	happened = e.watchChildren("Pod")
	e.remove(controllerRevision, e.revisions()["one"].Name)
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 3"))
	ready("p-0", "True")
	has("p-1", "three")
	ready("p-1", "True")
	has("p-2", "three")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
	if diff := cmp.Diff([]string{"DELETED p-1", "ADDED p-1", "DELETED p-2", "ADDED p-2"}, namesOf(happened(), watch.Modified)); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}
}

func TestCompositeScaleDuringRoll(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfPods)
	e.serves(rollingPods)
	ready := func(pod string) {
		e.awaitChild("Pod", pod)
		e.change("Pod", pod, `{status: {conditions: [{type: Ready, status: "True"}]}}`, "status")
	}
	e.parent("web", "{spec: {size: 4, template: one}}")
	for i := range 4 {
		ready(fmt.Sprintf("p-%d", i))
	}
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "4 of 4"))
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 4"))
	e.change(widget, "web", "{spec: {size: 2}}")
	e.awaitGone("Pod", "p-3")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 2 children have the latest revision; waiting: Pod p-0 is not ready"))
	if diff := cmp.Diff([]string{"p-1"}, namesIn(e.revisions()["one"])); diff != "" {
		t.Errorf("children of the older revision (-want +got):\n%s", diff)
	}
	e.change(widget, "web", "{spec: {size: 3}}")
	ready("p-2") // a new one has the latest revision immediately
	ready("p-0")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
}

// TestCompositeContinuesRollOfPeer: records, children and claims are as Metacontroller leaves them in the middle of a rolling update.
func TestCompositeContinuesRollOfPeer(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfConfigMaps)
	parent := e.parent("web", "{spec: {size: 3, template: two}}")
	owner := fmt.Sprintf("{apiVersion: test.example.com/v1, kind: Widget, name: web, uid: %s, controller: true, blockOwnerDeletion: true}", parent.GetUID())
	for name, template := range map[string]string{"c-0": "one", "c-1": "one", "c-2": "two"} {
		applied := fmt.Sprintf(`{"apiVersion":"v1","data":{"template":%q},"kind":"ConfigMap","metadata":{"labels":{"controller-uid":%q},"name":%q,"namespace":%q}}`,
			template, parent.GetUID(), name, e.namespace)
		e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {controller-uid: %s}, ownerReferences: [%s], annotations: {%s: '%s'}}, data: {template: %s}}",
			name, parent.GetUID(), owner, "metacontroller.k8s.io/last-applied-configuration", applied, template)
	}
	labels := fmt.Sprintf("{controller-uid: %s, metacontroller.k8s.io/apiGroup: test.example.com, metacontroller.k8s.io/resource: widgets}", parent.GetUID())
	for template, names := range map[string]string{"one": "[c-0, c-1, c-9]", "two": "[c-2]"} {
		patch := fmt.Sprintf(`{"spec":{"template":%q}}`, template)
		e.put("{apiVersion: metacontroller.k8s.io/v1alpha1, kind: ControllerRevision, metadata: {name: %s, labels: %s, ownerReferences: [%s]}, parentPatch: %s, "+
			"children: [{apiGroup: '', kind: ConfigMap, names: %s}]}", revisionName(parent, patch), labels, owner, patch, names)
	}
	happened := e.watchChildren("ConfigMap")
	e.serves(rolling)
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
	if diff := cmp.Diff([]string{"MODIFIED c-1", "MODIFIED c-0"}, namesOf(happened())); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}
	e.eventually(func() string {
		if left := e.revisions(); len(left) != 1 {
			return fmt.Sprintf("the ControllerRevisions are %v", left)
		}
		return ""
	})
}

// TestCompositeRollsAfterUpdateOfAll: while no child rolls, all are updated, and the record of the revision that they had stays. It updates none back.
func TestCompositeRollsAfterUpdateOfAll(t *testing.T) {
	e := newEngineEnv(t)
	stop := e.run(&faultproxy.Journal{})
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	parent := e.parent("web", "{spec: {size: 3, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "3 of 3"))
	roll := func(method string) {
		e.change(composite, e.name, fmt.Sprintf("{spec: {childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: %s}}]}}", method))
	}
	roll("InPlace")
	e.change(widget, "web", "{spec: {template: two}}")
	for i := range 3 {
		e.awaitChild("ConfigMap", fmt.Sprintf("c-%d", i), func(child *unstructured.Unstructured) string {
			if data, _, _ := unstructured.NestedString(child.Object, "data", "template"); data != "two" {
				return "the template is " + data
			}
			return ""
		})
	}
	stop()
	roll("RollingInPlace")
	e.change(widget, "web", "{spec: {template: three}}")
	happened := e.watchChildren("ConfigMap")
	e.run(&faultproxy.Journal{})
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, `{"spec":{"template":"three"}}`)))
	if diff := cmp.Diff([]string{"MODIFIED c-2", "MODIFIED c-1", "MODIFIED c-0"}, namesOf(happened())); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}
	e.awaitGoneRevision("one")
}

// TestCompositeRollFromNoTemplate: the API server keeps the null of a field that the parent lacks, so that the record stays that of its revision.
func TestCompositeRollFromNoTemplate(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	parent := e.parent("web", "{spec: {size: 2}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, `{"spec":{"template":null}}`)))
	e.calm()
	if record := e.revisions()["none"]; record == nil || record.Generation != 1 {
		t.Errorf("the ControllerRevision is %+v", record)
	}
	happened := e.watchChildren("ConfigMap")
	e.change(widget, "web", "{spec: {template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, `{"spec":{"template":"one"}}`)))
	if diff := cmp.Diff([]string{"MODIFIED c-1", "MODIFIED c-0"}, namesOf(happened())); diff != "" {
		t.Errorf("changes of the children (-want +got):\n%s", diff)
	}
	e.awaitGoneRevision("none")
}

func (e *engineEnv) awaitGoneRevision(template string) {
	e.Helper()
	e.eventually(func() string {
		if e.revisions()[template] != nil {
			return "the ControllerRevision of " + template + " still exists"
		}
		return ""
	})
}

// TestCompositeRollIsCustomizedByRevision: the hook sees for each revision the related objects that it has asked for with the parent of that revision.
func TestCompositeRollIsCustomizedByRevision(t *testing.T) {
	e := inSharedEngine(t)
	for _, template := range []string{"one", "two"} {
		e.put("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}", template)
	}
	e.hook.Answers(func(call *hookCall) any {
		if call.path == "/customize" {
			return tree{"relatedResources": list{tree{"apiVersion": "v1", "resource": "services", "namespace": e.namespace, "names": list{templateOf(call.Parent)}}}}
		}
		answer := setOfPods(call).(tree)
		if got := slices.Collect(maps.Keys(call.Related["Service.v1"])); !slices.Equal(got, []string{templateOf(call.Parent)}) {
			answer["children"] = list{}
			t.Errorf("for %s the hook was given the Services %q", templateOf(call.Parent), got)
		}
		return answer
	})
	e.serves(strings.Replace(rollingPods, "hooks: {", "hooks: {customize: {webhook: {url: HOOK/customize}}, ", 1))
	e.parent("web", "{spec: {size: 2, template: one}}")
	for i := range 2 {
		e.awaitChild("Pod", fmt.Sprintf("p-%d", i))
		e.change("Pod", fmt.Sprintf("p-%d", i), `{status: {conditions: [{type: Ready, status: "True"}]}}`, "status")
	}
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "2 of 2"))
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 2"))
	after := len(e.hook.Calls())
	e.change("Service", "one", "{metadata: {labels: {changed: 'yes'}}}")
	e.awaitCall(after, func(call *hookCall) bool { return call.path == "/sync" && templateOf(call.Parent) == "one" })
}

// TestCompositeRollIsFinalized: every revision has to agree.
func TestCompositeRollIsFinalized(t *testing.T) {
	e := inSharedEngine(t)
	var allowed sync.Map
	e.hook.Answers(func(call *hookCall) any {
		answer := setOfPods(call).(tree)
		_, is := allowed.Load(templateOf(call.Parent))
		answer["finalized"] = call.Finalizing && is
		if call.Finalizing {
			answer["resyncAfterSeconds"] = 1
		}
		return answer
	})
	e.serves(strings.Replace(rollingPods, "hooks: {", "hooks: {finalize: {webhook: {url: HOOK/finalize}}, ", 1))
	e.parent("web", "{spec: {size: 2, template: one}}")
	e.awaitChild("Pod", "p-1")
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitChild(widget, "web", updated("False", "RolloutWaiting", "1 of 2"))
	allowed.Store("two", true)
	e.remove(widget, "web")
	e.awaitCall(0, func(call *hookCall) bool { return call.Finalizing && templateOf(call.Parent) == "one" })
	if e.look(widget, "web") == nil {
		t.Error("the parent is gone, want it to wait for the older revision")
	}
	allowed.Store("one", true)
	e.awaitGone(widget, "web")
}

// TestCompositeRollNamesRevisionThatFails: the hook fails for the parent as it was, which nothing else in the error shows.
func TestCompositeRollNamesRevisionThatFails(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	parent := e.parent("web", "{spec: {size: 2, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "2 of 2"))
	e.hook.Answers(func(call *hookCall) any {
		if templateOf(call.Parent) == "one" {
			return raw(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
		}
		return setOfConfigMaps(call)
	})
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitEventOn(parent, "SyncError", "about the parent as it was in the ControllerRevision "+revisionName(parent, `{"spec":{"template":"one"}}`)+": ")
	// Without its record, there is no such call.
	e.remove(controllerRevision, e.revisions()["one"].Name)
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", revisionName(parent, `{"spec":{"template":"two"}}`)))
}

// TestCompositeKeepsNoForgedRevision: what another client writes into a record is not rolled out.
func TestCompositeKeepsNoForgedRevision(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	e.parent("web", "{spec: {size: 2, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "2 of 2"))
	name := e.revisions()["one"].Name
	_, err := e.at(controllerRevision).Patch(e.Context(), name, types.MergePatchType, []byte(`{"parentPatch":{"spec":{"template":"forged"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.eventually(func() string {
		if e.revisions()["one"] == nil {
			return "the ControllerRevision still has what another client wrote"
		}
		return ""
	})
	for _, call := range e.hook.Calls() {
		if templateOf(call.Parent) == "forged" {
			t.Error("the hook was called with what another client wrote")
		}
	}
}

// TestCompositeRollsWithoutWatchList: an API server without watch lists, before Kubernetes 1.32, needs the right to list the records, too.
func TestCompositeRollsWithoutWatchList(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	journal := &faultproxy.Journal{}
	proxy, kubeconfig := e.startProxy(journal)
	refuseWatchLists(proxy)
	e.runVia(proxy, kubeconfig)
	e.hook.Answers(setOfConfigMaps)
	e.serves(rolling)
	e.parent("web", "{spec: {size: 2, template: one}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "2 of 2"))
	if !slices.ContainsFunc(journal.Entries(), func(entry faultproxy.Entry) bool {
		return entry.Verb == "list" && entry.Resource == "controllerrevisions" && entry.Code == http.StatusOK
	}) {
		t.Error("the ControllerRevisions were not listed")
	}
	e.change(widget, "web", "{spec: {template: two}}")
	e.awaitChild(widget, "web", updated("True", "OnLatestRevision", "2 of 2"))
	e.awaitGoneRevision("one")
}

func TestCompositeSampleRollingSet(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("compositecontroller/rollingset.yaml")
	e.awaitReasonOf("rollingset-controller", "Serving")
	const kind = "RollingSet.example.com/v1"
	e.put("{apiVersion: example.com/v1, kind: RollingSet, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{name: web, image: one}]}}}}")
	ready := has(3, "status", "readyReplicas")
	e.awaitChild(kind, "web", ready, updated("True", "OnLatestRevision", "3 of 3"))
	happened := e.watchChildren("Pod")
	e.change(kind, "web", "{spec: {template: {spec: {containers: [{name: web, image: two}]}}}}")
	e.awaitChild("Pod", "web-0", func(pod *unstructured.Unstructured) string {
		if got := typed[corev1.Pod](t, pod).Spec.Containers[0].Image; got != "two" {
			return "web-0 has the image " + got
		}
		return ""
	})
	e.awaitChild(kind, "web", ready, updated("True", "OnLatestRevision", "3 of 3"))
	away, most := map[string]bool{}, 0
	for _, event := range happened() {
		pod := typed[corev1.Pod](t, event.Object.(*unstructured.Unstructured))
		isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		away[pod.Name] = event.Type == watch.Deleted || pod.DeletionTimestamp != nil || !isReady
		now := 0
		for _, is := range away {
			if is {
				now++
			}
		}
		most = max(most, now)
	}
	if most != 1 {
		t.Errorf("%d Pods were not ready at a time, want 1", most)
	}
	if out := e.kubectl("get", "rollingsets", "--namespace", e.namespace); !strings.Contains(out, "3 of 3 children have the latest revision") {
		t.Errorf("kubectl get rollingsets:\n%s", out)
	}
}

func TestCompositeSampleBlueGreen(t *testing.T) {
	t.Parallel()
	e := forSample(t)
	e.deploySample("compositecontroller/bluegreen.yaml")
	e.awaitReasonOf("bluegreen-controller", "Serving")
	const kind = "BlueGreen.example.com/v1"
	e.put("{apiVersion: example.com/v1, kind: BlueGreen, metadata: {name: web}, spec: {replicas: 2, port: 80, template: {spec: {containers: [{name: web, image: one}]}}}}")
	e.awaitChild("ReplicaSet.apps/v1", "web-blue", has(2, "status", "availableReplicas"))
	e.change(kind, "web", "{spec: {template: {spec: {containers: [{name: web, image: two}]}}}}")
	e.awaitChild("Service", "web", has("green", "spec", "selector", "bluegreen.example.com/color"))
	e.awaitChild("ReplicaSet.apps/v1", "web-green", has(2, "status", "availableReplicas"))
	e.awaitChild("ReplicaSet.apps/v1", "web-blue", has(0, "status", "replicas"))
	e.awaitChild(kind, "web", has("Stable", "status", "phase"), has("green", "status", "active"))
}
