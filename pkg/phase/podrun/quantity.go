// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantity is how many characters a Quantity has at most.
const maxQuantity = 64

var (
	largeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)
	quantityType  = reflect.TypeFor[resource.Quantity]()
)

// ParseQuantity is resource.ParseQuantity for the text of an author. It refuses numbers for which that takes minutes and gigabytes, such as
// 1e-999999999.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := checkQuantity(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

func checkQuantity(text string) error {
	switch {
	case len(text) > maxQuantity:
		return fmt.Errorf("must have at most %d characters", maxQuantity)
	case largeExponent.MatchString(text):
		return fmt.Errorf("must have an exponent of at most two digits")
	}
	return nil
}

// checkQuantities returns an error for a Quantity that ParseQuantity refuses because of its size, in a JSON value that is to be decoded into a
// value of the type. field is that of the value.
func checkQuantities(value any, t reflect.Type, field string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case string:
		if t != quantityType {
			return nil
		}
		if err := checkQuantity(value); err != nil {
			return fmt.Errorf("%s: invalid quantity %.70q: %w", field, value, err)
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, item := range value {
			if err := checkQuantities(item, t.Elem(), fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Map:
			for key, item := range value {
				if err := checkQuantities(item, t.Elem(), field+"."+key); err != nil {
					return err
				}
			}
		case reflect.Struct:
			return checkFields(value, t, field)
		}
	}
	return nil
}

func checkFields(value map[string]any, t reflect.Type, field string) error {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		var err error
		if name == "" { // its fields are in the same JSON object
			err = checkQuantities(value, t.Field(i).Type, field)
		} else if item, ok := value[name]; ok {
			err = checkQuantities(item, t.Field(i).Type, field+"."+name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
