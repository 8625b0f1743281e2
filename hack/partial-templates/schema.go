// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// object is a JSON object: a CRD, or a schema within it.
type object = map[string]any

// schemas returns the schema of every version of a CRD.
func schemas(crd object) map[string]object {
	found := map[string]object{}
	for _, version := range list(field(crd, "spec"), "versions") {
		version, _ := version.(object)
		name, _ := version["name"].(string)
		found[name] = field(field(version, "schema"), "openAPIV3Schema")
	}
	return found
}

// walk calls visit for a schema and, where it returns true, for the schemas of its properties, items and values.
func walk(schema object, visit func(schema object) bool) {
	if schema == nil || !visit(schema) {
		return
	}
	for _, property := range field(schema, "properties") {
		property, _ := property.(object)
		walk(property, visit)
	}
	walk(field(schema, "items"), visit)
	walk(field(schema, "additionalProperties"), visit)
}

// podTemplateSpec returns the schema of template.spec if the schema is that of a PodTemplateSpec. It is known by its shape,
// since a CRD has no names of types: a spec that has containers, init containers and a node name is that of a Pod.
func podTemplateSpec(schema object) (spec object, ok bool) {
	spec = field(field(schema, "properties"), "spec")
	properties := field(spec, "properties")
	for _, name := range []string{"containers", "initContainers", "nodeName"} {
		if field(properties, name) == nil {
			return nil, false
		}
	}
	return spec, true
}

// relax makes the containers of a Pod's spec optional and nullable.
func relax(spec object) {
	required := slices.DeleteFunc(list(spec, "required"), func(name any) bool { return name == "containers" })
	if len(required) > 0 {
		spec["required"] = required
	} else {
		delete(spec, "required")
	}
	field(field(spec, "properties"), "containers")["nullable"] = true
}

// field returns a field that is an object, nil if there is none.
func field(o object, name string) object {
	value, _ := o[name].(object)
	return value
}

// list returns a field that is a list, nil if there is none.
func list(o object, name string) []any {
	value, _ := o[name].([]any)
	return value
}
