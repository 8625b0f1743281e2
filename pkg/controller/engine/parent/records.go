// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"maps"
	"slices"

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
	for i, record := range p.claims.Records() {
		of := o.rolling[i]
		if i > 0 && record.Count == 0 {
			p.deleteRecord(of.record)
			continue
		}
		if err := p.planRecord(spec, o, of.revision, record); err != nil {
			return err
		}
	}
	for _, stray := range o.strays {
		p.deleteRecord(stray)
	}
	p.history.recorded = p.history.recorded || len(p.records) == 0
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

// planRecord creates the record of a revision, or updates it if it differs from what it has to claim.
func (p *plan) planRecord(spec *Spec, o observed, of revision, record rollout.Record) error {
	count := fmt.Sprintf("%d of %d", record.Count, p.claims.Len())
	if of.record == nil {
		labels, err := spec.recordLabels(o)
		if err != nil {
			return err
		}
		step := recordStep(verbCreate, o.parent.GetNamespace(), of.name)
		step.object = of.object(record, map[string]any{
			"namespace":       o.parent.GetNamespace(),
			"name":            of.name,
			"labels":          labels,
			"annotations":     map[string]any{v1alpha1.AnnotationRevisionChildren: count},
			"ownerReferences": []any{o.of.ownerReference(o.parent)},
		})
		p.records = append(p.records, step)
		return nil
	}
	annotations, _ := of.stored.Metadata["annotations"].(map[string]any)
	if annotations[v1alpha1.AnnotationRevisionChildren] == count && !of.forged && slices.EqualFunc(of.stored.Children, record.Claims, equalClaims) {
		return nil
	}
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[v1alpha1.AnnotationRevisionChildren] = count
	metadata := maps.Clone(of.stored.Metadata)
	metadata["annotations"] = annotations
	step := recordStep(verbUpdate, o.parent.GetNamespace(), of.name)
	step.object, step.uid, step.resourceVersion = of.object(record, metadata), of.record.GetUID(), of.record.GetResourceVersion()
	p.records = append(p.records, step)
	return nil
}

func equalClaims(a, b v1alpha1.ControllerRevisionChildren) bool {
	return a.APIGroup == b.APIGroup && a.Kind == b.Kind && slices.Equal(a.Names, b.Names)
}

// object returns a ControllerRevision. The API server accepts no list of children that is null.
func (of *revision) object(record rollout.Record, metadata map[string]any) map[string]any {
	object := map[string]any{
		"apiVersion":  controllerRevisions.apiVersion(),
		"kind":        controllerRevisions.Kind,
		"metadata":    metadata,
		"parentPatch": of.patch,
	}
	if record.Count > 0 {
		object["children"] = record.Claims
	}
	return object
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
