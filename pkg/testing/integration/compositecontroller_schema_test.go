// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// structural creates or changes a CustomResourceDefinition in a group of the test, with the properties of its spec. Its status keeps everything.
func (e *engineEnv) structural(kind, plural, properties string) {
	e.Helper()
	e.schema(kind, plural, "{spec: {type: object, properties: "+properties+"}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}")
}

// schema does the same with the properties of the whole object.
func (e *engineEnv) schema(kind, plural, properties string) {
	e.Helper()
	schema := "{type: object, properties: " + properties + "}"
	versions := "[{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: " + schema + "}}]"
	name := plural + "." + e.name + ".example.com"
	if e.look(definitions, name) == nil {
		e.definition(kind, plural, "{status: {}}")
	}
	e.change(definitions, name, "{spec: {versions: "+versions+"}}")
}

// TestCompositeFieldsAddedToADefinition: what a CRD gains reaches the hook soon, in parents that use it and, by its defaults, in those that were there.
func TestCompositeFieldsAddedToADefinition(t *testing.T) {
	e := inSharedEngine(t)
	group := e.name + ".example.com"
	gizmo, part := "Gizmo."+group+"/v1", "Part."+group+"/v1"
	e.grantEngine(append(rightsOnParents(group, "gizmos"), rightsOnChildren(group, "parts")...)...)
	const old, new = "{v: {type: integer}}", "{v: {type: integer}, f: {type: string}, d: {type: string, default: given}}"
	define := func(properties string) {
		e.structural("Gizmo", "gizmos", properties)
		e.structural("Part", "parts", properties)
	}
	define(old)
	e.hook.Answers(func(call *hookCall) any {
		return tree{"children": list{tree{"apiVersion": group + "/v1", "kind": "Part", "metadata": tree{"name": call.name()}, "spec": call.Parent["spec"]}}}
	})
	e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
childResources: [{apiVersion: ` + group + `/v1, resource: parts, updateStrategy: {method: Recreate}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	hasSpec := func(want tree) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string { return cmp.Diff(map[string]any(want), o.Object["spec"]) }
	}
	for _, name := range []string{"edited", "stored"} {
		e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: %s}, spec: {v: 1}}", group, name)
		e.awaitChild(part, name, hasSpec(tree{"v": int64(1)}))
	}
	before := e.look(part, "stored")
	define(new)
	e.eventually(func() string { // the API server drops the field until it has taken over the definition
		return hasSpec(tree{"v": int64(2), "f": "x", "d": "given"})(e.change(gizmo, "edited", "{spec: {v: 2, f: x}}"))
	})
	edited := e.awaitChild(part, "edited", hasSpec(tree{"v": int64(2), "f": "x", "d": "given"}))
	stored := e.awaitChild(part, "stored", hasSpec(tree{"v": int64(1), "d": "given"}))
	for name, want := range map[string]tree{"edited": {"v": 2.0, "f": "x", "d": "given"}, "stored": {"v": 1.0, "d": "given"}} {
		e.eventually(func() string {
			calls := e.hook.CallsOf("/sync")
			for i := len(calls) - 1; i >= 0; i-- {
				if calls[i].name() == name {
					return cmp.Diff(map[string]any(want), calls[i].Parent["spec"])
				}
			}
			return "the hook was not called about " + name
		})
	}
	e.calm()
	e.awaitReason(v1alpha1.ReasonServing)
	if stored.GetUID() != before.GetUID() {
		t.Error("Part stored, which has the default as desired, was created again")
	}
	for _, child := range []*unstructured.Unstructured{edited, stored} {
		if now := e.look(part, child.GetName()); now == nil || now.GetUID() != child.GetUID() {
			t.Errorf("Part %s was created again", child.GetName())
		}
		for _, event := range e.eventsOn(e.look(gizmo, child.GetName())) {
			if event.Type != "Normal" {
				t.Errorf("event on Gizmo %s: %s: %s", child.GetName(), event.Reason, event.Message)
			}
		}
	}
}

// TestCompositeIgnoredFieldsAreWrittenLater: a hook desires fields that the definitions of parent and child lack. They are written as soon as those have them.
func TestCompositeIgnoredFieldsAreWrittenLater(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"InPlace", "Recreate"} {
		t.Run(method, func(t *testing.T) {
			e := inSharedEngine(t)
			group := e.name + ".example.com"
			gizmo, part := "Gizmo."+group+"/v1", "Part."+group+"/v1"
			e.grantEngine(append(rightsOnParents(group, "gizmos"), rightsOnChildren(group, "parts")...)...)
			define := func(properties string) {
				e.schema("Gizmo", "gizmos", "{status: {type: object, properties: "+properties+"}}")
				e.schema("Part", "parts", "{spec: {type: object, properties: "+properties+"}}")
			}
			define("{v: {type: integer}, observedGeneration: {type: integer}}")
			e.hook.Answers(func(call *hookCall) any {
				fields := tree{"v": 1, "f": "x"}
				return tree{"status": fields, "children": list{tree{"apiVersion": group + "/v1", "kind": "Part", "metadata": tree{"name": call.name()}, "spec": fields}}}
			})
			e.serves(`
generateSelector: true
parentResource: {apiVersion: ` + group + `/v1, resource: gizmos, labelSelector: {}}
childResources: [{apiVersion: ` + group + `/v1, resource: parts, updateStrategy: {method: ` + method + `}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
			e.put("{apiVersion: %s/v1, kind: Gizmo, metadata: {name: web}}", group)
			ignored := map[string]any{"v": 1}
			e.awaitChild(part, "web", has(ignored, "spec"))
			e.awaitChild(gizmo, "web", has(map[string]any{"v": 1, "observedGeneration": 1}, "status"))
			e.calm()
			e.awaitChild(part, "web", has(ignored, "spec"))
			define("{v: {type: integer}, f: {type: string}, observedGeneration: {type: integer}}")
			e.awaitChild(part, "web", has(map[string]any{"v": 1, "f": "x"}, "spec"))
			e.awaitChild(gizmo, "web", has(map[string]any{"v": 1, "f": "x", "observedGeneration": 1}, "status"))
			e.awaitReason(v1alpha1.ReasonServing)
		})
	}
}
