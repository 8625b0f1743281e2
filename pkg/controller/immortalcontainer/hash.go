// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// specHash names what the user asked to run: image and template, and nothing of what the controller adds. A Pod is
// replaced when it changes, so it must not change with a new version of the operator or of the Kubernetes API: it is
// taken over the set fields only, under their JSON names. A golden test pins it.
func specHash(spec v1alpha1.ImmortalContainerSpec) string {
	wanted := struct {
		Image    string                  `json:"image"`
		Template *corev1.PodTemplateSpec `json:"template"`
	}{spec.Image, spec.Template}
	// encoding/json sorts the keys of maps.
	encoded, err := json.Marshal(setFields(reflect.ValueOf(wanted)))
	if err != nil {
		panic(fmt.Sprintf("encoding a PodTemplateSpec: %v", err)) // only plain data goes in
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// setFields turns a value into plain JSON data without its unset struct fields. The tags cannot be trusted with that:
// omitempty leaves empty structs in, and fields gain and lose omitempty from one version of the API to the next. What a
// user set to something empty through a pointer (emptyDir: {}, namespaceSelector: {}) stays.
func setFields(value reflect.Value) any {
	if value.CanInterface() {
		if marshaler, ok := value.Interface().(json.Marshaler); ok && !(value.Kind() == reflect.Pointer && value.IsNil()) {
			return marshaler // quantities, times, int-or-strings
		}
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return setFields(value.Elem())
	case reflect.Struct:
		fields := map[string]any{}
		addSetFields(fields, value)
		return fields
	case reflect.Map:
		entries := make(map[string]any, value.Len())
		for _, key := range value.MapKeys() {
			entries[key.String()] = setFields(value.MapIndex(key))
		}
		return entries
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return value.Interface()
		}
		items := make([]any, value.Len())
		for i := range items {
			items[i] = setFields(value.Index(i))
		}
		return items
	default:
		return value.Interface()
	}
}

func addSetFields(fields map[string]any, value reflect.Value) {
	for i := range value.NumField() {
		field, structField := value.Field(i), value.Type().Field(i)
		name, _, _ := strings.Cut(structField.Tag.Get("json"), ",")
		switch {
		case field.IsZero():
		case name == "" && structField.Anonymous && field.Kind() == reflect.Struct:
			addSetFields(fields, field)
		default:
			fields[name] = setFields(field)
		}
	}
}
