// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "math"

// A value that the schema admits and the Go type cannot decode fails more than its own object: a client that lists the kind gets an error, so
// the informer has no object at all, and the controller does nothing for anybody. The schemas of controller-gen admit such values of these types:
//
//	intstr.IntOrString   5000000000, which is no int32
//	int32                the same, where the API server ignores the format of integers, as it did before Kubernetes 1.36
//	resource.Quantity    1e1.5, whose exponent is no integer. And 1e-999999999, for which a client computes a number of a billion digits.
//	metav1.Time          2006-01-02t15:04:05z and an offset of 99 hours, which the format date-time admits, and lists, which each format admits
//
// metav1.Duration and metav1.MicroTime look like other strings. Their fields have markers. An int64 has no limits: a maximum is a float64, and none is
// the largest int64.

// quantityPattern is that of resource.Quantity with at most two digits in the exponent. Larger numbers are not those of a resource.
const (
	quantityPattern   = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	quantityMaxLength = 64
)

// timePattern is RFC 3339 with the letters in upper case, in which a Go client expects them. The format checks the numbers.
const timePattern = `^[0-9-]+T[0-9:]+([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// narrow makes a schema refuse what a Go client cannot decode.
func narrow(schema object) {
	switch {
	case schema["x-kubernetes-int-or-string"] == true && schema["pattern"] != nil:
		schema["pattern"], schema["maxLength"] = quantityPattern, quantityMaxLength
	case schema["x-kubernetes-int-or-string"] == true, schema["format"] == "int32":
		limit(schema, math.MinInt32, math.MaxInt32)
	case schema["format"] == "date-time" && schema["pattern"] == nil:
		schema["pattern"] = timePattern
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		schema["x-kubernetes-map-type"] = "atomic" // or else metadata.managedFields is deeper than the object, and the API server cannot decode it
	}
	if schema["format"] == "date-time" {
		schema["minItems"], schema["maxItems"] = 1, 0 // no list has such a length
	}
}

// limit sets the minimum and maximum that a schema lacks.
func limit(schema object, minimum, maximum int64) {
	if schema["minimum"] == nil {
		schema["minimum"] = minimum
	}
	if schema["maximum"] == nil {
		schema["maximum"] = maximum
	}
}
