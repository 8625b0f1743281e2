// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// A kind that embeds a PodTemplateSpec takes the schema of core/v1 with it, which demands spec.containers. For us a template
// is what the user wants to add to a Pod that the controller makes, and that may be nothing but a nodeSelector. So
// spec.containers becomes optional, and nullable too: Go clients send "containers": null for a template without containers,
// since the field has no omitempty. A container that is given still needs a name.
//
// controller-gen cannot express this, since the markers that say so stand in core/v1.

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
