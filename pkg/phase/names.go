// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NoNamespace is how a phase fails that makes a Pod and has no namespace for it.
const NoNamespace = "the phase makes a Pod and names no namespace for it, and the subject of the action is in none: " +
	"give the phase the argument namespace, or the action a subject in the namespace of the application"

// What users write becomes the path of a request. A client refuses a path that is none before it asks the API server, with an error that
// looks as if it could go away. So names are checked before any request, and what is wrong with them is how the phase ends.

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

// CheckOptionalNamespace likewise where the field may be empty.
func CheckOptionalNamespace(field, value string) error {
	if value == "" {
		return nil
	}
	return CheckNamespace(field, value)
}

// CheckResource returns a *Failure if these cannot name a kind of objects, as in apps, v1 and deployments. An empty group is that of the core.
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

// MaxShown is how much a failure shows of what a condition rendered to, in bytes.
const MaxShown = 100

// Shorten cuts a text to a number of bytes.
func Shorten(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
