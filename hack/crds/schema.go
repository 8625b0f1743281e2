// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
