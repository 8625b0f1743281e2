// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"slices"
	"strings"
)

// maxPath is the limit of the path in an error, in bytes: events and conditions have it.
const maxPath = 200

// fieldError is about one field. Its path is built only if there is an error, while the error is returned.
type fieldError struct {
	steps   []string // the innermost first
	problem string
}

func (e *fieldError) Error() string {
	var path strings.Builder
	for _, step := range slices.Backward(e.steps) {
		if path.Len()+len(step) > maxPath {
			path.WriteString("...")
			break
		}
		path.WriteString(step)
	}
	return strings.TrimPrefix(path.String(), ".") + ": " + e.problem
}

// below adds one step to the path of a fieldError.
func below(err error, step string) error {
	if e, ok := err.(*fieldError); ok {
		e.steps = append(e.steps, step)
	}
	return err
}

// kindOf names the JSON type of a value.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	default:
		return fmt.Sprintf("a Go %T", value)
	}
}
