// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/rollout"
)

// controllerRevisions are the records of revisions.
var controllerRevisions = Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion.Version, Resource: "controllerrevisions"},
	Kind:                 "ControllerRevision",
	Namespaced:           true,
}

// planRecords plans the records of revisions by the claims of the plan.
func (p *plan) planRecords(spec *Spec, o observed) error {
	if p.claims == nil {
		return nil
	}
	for i, claims := range p.claims.Revisions() {
		of := o.rolling[i]
		if i > 0 && len(claims) == 0 {
			p.deleteRecord(of.record)
			continue
		}
		if err := p.planRecord(spec, o, of.revision, claims); err != nil {
			return err
		}
	}
	for _, stray := range o.strays {
		p.deleteRecord(stray)
	}
	return nil
}

func recordStep(verb verb, namespace, name string) childStep {
	return childStep{verb: verb, child: controllerRevisions.key(namespace, name), in: controllerRevisions}
}

func (p *plan) deleteRecord(record object) {
	if record.Deleting() {
		return
	}
	step := recordStep(verbDelete, record.GetNamespace(), record.GetName())
	step.uid = record.GetUID()
	p.records = append(p.records, step)
}

// planRecord creates a record, or updates it if it differs.
func (p *plan) planRecord(spec *Spec, o observed, of revision, claims []rollout.Child) error {
	var children any
	if err := reencode(rollout.WriteClaims(claims), &children); err != nil {
		return err
	}
	count := fmt.Sprintf("%d of %d", len(claims), p.claims.Size())
	if of.record == nil {
		labels, err := spec.recordLabels(o)
		if err != nil {
			return err
		}
		step := recordStep(verbCreate, o.parent.GetNamespace(), of.name)
		step.object = withoutNull("children", map[string]any{
			"apiVersion": controllerRevisions.apiVersion(),
			"kind":       controllerRevisions.Kind,
			"metadata": map[string]any{
				"namespace":       o.parent.GetNamespace(),
				"name":            of.name,
				"labels":          labels,
				"annotations":     map[string]any{v1alpha1.AnnotationRevisionChildren: count},
				"ownerReferences": []any{o.of.ownerReference(o.parent)},
			},
			"parentPatch": of.patch,
			"children":    children,
		})
		p.records = append(p.records, step)
		return nil
	}
	tree, err := treeOf(of.record)
	if err != nil {
		return fmt.Errorf("reading the ControllerRevision %s: %w", of.name, err)
	}
	metadata := maps.Clone(tree["metadata"].(map[string]any))
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[v1alpha1.AnnotationRevisionChildren] == count && equality.Semantic.DeepEqual(tree["children"], children) &&
		equality.Semantic.DeepEqual(tree["parentPatch"], any(of.patch)) {
		return nil
	}
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[v1alpha1.AnnotationRevisionChildren] = count
	metadata["annotations"] = annotations
	tree["metadata"], tree["children"], tree["parentPatch"] = metadata, children, of.patch
	step := recordStep(verbUpdate, o.parent.GetNamespace(), of.name)
	step.object, step.uid, step.resourceVersion = withoutNull("children", tree), of.record.GetUID(), of.record.GetResourceVersion()
	p.records = append(p.records, step)
	return nil
}

// withoutNull returns a tree without the member if that is null: the API server accepts no list that is null.
func withoutNull(member string, tree map[string]any) map[string]any {
	if tree[member] == nil {
		delete(tree, member)
	}
	return tree
}

// reencode encodes a value, and decodes it into another one.
func reencode(value, into any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// recordLabels returns the labels of a record. Metacontroller takes them from the template of the parent, if it has one like that of a Deployment.
func (spec *Spec) recordLabels(o observed) (map[string]any, error) {
	found := map[string]any{}
	if spec.generateSelector {
		found[labelControllerUID] = string(o.parent.GetUID())
	} else {
		tree, err := treeOf(o.parent)
		if err != nil {
			return nil, fmt.Errorf("reading the parent: %w", err)
		}
		template, _, _ := unstructured.NestedFieldNoCopy(tree, "spec", "template", "metadata", "labels") // no template, or another one, has no labels
		labels, _ := template.(map[string]any)
		for key, value := range labels {
			if text, ok := value.(string); ok {
				found[key] = text
			}
		}
	}
	found[v1alpha1.LabelRevisionAPIGroup], found[v1alpha1.LabelRevisionResource] = o.of.Group, o.of.Resource.Resource
	return found, nil
}
