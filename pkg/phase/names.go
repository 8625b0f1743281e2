// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NoNamespace is the failure of a phase that makes a Pod and has no namespace for it.
const NoNamespace = "the phase makes a Pod and names no namespace for it, and the subject of the action is in none: " +
	"give the phase the argument namespace, or the action a subject in the namespace of the application"

// Names that users write become part of the path of a request. client-go refuses an invalid path with an error that looks temporary. So
// names are checked before any request, and an invalid name fails the phase.

// CheckName returns a *Failure if the value of the field cannot be the name of an object.
func CheckName(field, value string) error { return checkPart(field, value, content.IsPathSegmentName) }

// CheckNamespace returns a *Failure if the value of the field cannot be the name of a namespace.
func CheckNamespace(field, value string) error {
	return checkPart(field, value, validation.IsDNS1123Label)
}

// CheckContainer returns a *Failure if the value of the field cannot be the name of a container.
func CheckContainer(field, value string) error {
	return checkPart(field, value, validation.IsDNS1123Label)
}

// CheckOptionalNamespace is CheckNamespace for a field that may be empty.
func CheckOptionalNamespace(field, value string) error {
	if value == "" {
		return nil
	}
	return CheckNamespace(field, value)
}

// CheckResource returns a *Failure if these cannot name a resource, such as apps, v1 and deployments. An empty group is the core group.
func CheckResource(field, group, version, resource string) error {
	if group != "" {
		if err := checkPart(field+".group", group, validation.IsDNS1123Subdomain); err != nil {
			return err
		}
	}
	if err := checkPart(field+".apiVersion", version, validation.IsDNS1123Label); err != nil {
		return err
	}
	return checkPart(field+".resource", resource, validation.IsDNS1123Label)
}

func checkPart(field, value string, check func(string) []string) error {
	if value == "" {
		return Failf("%s is empty", field)
	}
	if wrong := check(value); len(wrong) > 0 {
		return Failf("%s is %q: %s", field, Shorten(value, MaxShown), strings.Join(wrong, ", "))
	}
	return nil
}

// MaxShown is the maximum length of a value that a failure shows, in bytes.
const MaxShown = 100

// Shorten shortens a text to a number of bytes.
func Shorten(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
