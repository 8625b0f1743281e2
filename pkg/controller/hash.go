// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Hash returns the hash of a struct of plain API data, as 16 hexadecimal digits. What decides a replacement or a rollout must not change
// with a new version of the operator or of the Kubernetes API, so the hash has only fields that are set, under their JSON names. Each kind
// that stores a hash pins it by a golden test.
func Hash(wanted any) string {
	// encoding/json sorts the keys of maps.
	encoded, err := json.Marshal(setFields(reflect.ValueOf(wanted)))
	if err != nil {
		panic(fmt.Sprintf("encoding a %T: %v", wanted, err)) // only plain data goes in
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// setFields returns a value as plain JSON data without its unset struct fields. The JSON tags are not enough: omitempty keeps empty
// structs, and fields gain and lose omitempty from one version of the API to the next. Empty values behind a pointer, which a user has
// set (emptyDir: {}, namespaceSelector: {}), are kept.
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
