// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"strings"
)

// selectControllers returns the controllers that --controllers selects, in the order of the table: "foo" includes foo, "-foo"
// excludes it, the first of the two counts, and "*" includes all that are not named. The flag of kube-controller-manager has the same
// meaning.
func selectControllers(table []Descriptor, wanted []string) ([]Descriptor, error) {
	for _, item := range wanted {
		name := strings.TrimPrefix(item, "-")
		if item != "*" && !slices.ContainsFunc(table, func(d Descriptor) bool { return d.Name == name }) {
			return nil, invalid("controllers", item, "must be '*' or one of %s", strings.Join(names(table), ", "))
		}
	}
	var selected []Descriptor
	for _, d := range table {
		if isSelected(d.Name, wanted) {
			selected = append(selected, d)
		}
	}
	if len(selected) == 0 {
		return nil, invalid("controllers", strings.Join(wanted, ","), "must select a controller; '*' stands for all of them, as in '*,-foo'")
	}
	return selected, nil
}

func isSelected(name string, wanted []string) bool {
	for _, item := range wanted {
		switch item {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(wanted, "*")
}

func names(descriptors []Descriptor) []string {
	names := make([]string, 0, len(descriptors))
	for _, d := range descriptors {
		names = append(names, d.Name)
	}
	return names
}
