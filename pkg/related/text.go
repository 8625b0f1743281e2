// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package related

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	kjson "sigs.k8s.io/json" // which minds the case of names, and reports unknown ones

	"millwright.dev/pkg/hook"
)

// ruleText is a rule as it is in the answer.
type ruleText struct {
	APIVersion        string                `json:"apiVersion"`
	Resource          string                `json:"resource"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	Namespace         string                `json:"namespace"`
	Names             []string              `json:"names"`
}

// readRule reads the JSON of a rule. at is the path to it. unknown are fields that no rule has.
func readRule(at string, text []byte) (read *ruleText, unknown []string, err error) {
	read = &ruleText{}
	notes, err := kjson.UnmarshalStrict(text, read)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := at
		if wrong.Field != "" {
			where += "." + wrong.Field
		}
		return nil, nil, hook.NewError(hook.ReasonInvalidResponse, "invalid answer of the customize hook: %s: is %s, and must be %s", where, typeOf(wrong.Value), wanted(wrong.Type))
	}
	if err != nil {
		return nil, nil, hook.NewError(hook.ReasonInvalidJSON, "invalid answer of the customize hook: %s: %s", at, shorten(err.Error(), maxShown))
	}
	for _, note := range notes {
		if field, ok := note.(kjson.FieldError); ok {
			field.SetFieldPath(at + "." + shorten(field.FieldPath(), maxShown))
		}
		unknown = append(unknown, note.Error())
	}
	return read, unknown, nil
}

// typeOf names the type of a JSON value that is not as it must be.
func typeOf(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "a boolean"
	default:
		return "a " + shorten(kind, maxShown)
	}
}

func wanted(of reflect.Type) string {
	switch of.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// resource returns the resource of the rule. Its parts become parts of a URL.
func (read *ruleText) resource() (schema.GroupVersionResource, error) {
	none := schema.GroupVersionResource{}
	if read.APIVersion == "" {
		return none, errors.New(`apiVersion: is missing: give group/version, such as "apps/v1", or "v1" for the core group`)
	}
	version, err := schema.ParseGroupVersion(read.APIVersion)
	if err != nil || version.Group != "" && len(validation.IsDNS1123Subdomain(version.Group)) > 0 || len(validation.IsDNS1035Label(version.Version)) > 0 {
		return none, fmt.Errorf(`apiVersion: is %s, and must be group/version, such as "apps/v1", or "v1" for the core group`, quote(read.APIVersion))
	}
	if read.Resource == "" {
		return none, errors.New(`resource: is missing: give the plural name of the kind, such as "configmaps"`)
	}
	if len(validation.IsDNS1123Label(read.Resource)) > 0 {
		return none, fmt.Errorf(`resource: is %s, and must be the plural name of a kind in lower case, such as "configmaps"`, quote(read.Resource))
	}
	return version.WithResource(read.Resource), nil
}

func checkNamespace(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("namespace: is %s, which is no name of a Namespace: %s", quote(name), problems[0])
	}
	return nil
}

func checkName(index int, name string) error {
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return fmt.Errorf("names[%d]: is %s, which is no name of an object: %s", index, quote(name), problems[0])
	}
	return nil
}

// maxShown is the length of a part of an answer in an error text, in bytes: the text goes into an event, which holds 1 kB.
const maxShown = 256

func quote(text string) string { return strconv.Quote(shorten(text, maxShown/2)) }

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
