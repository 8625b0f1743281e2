// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"testing"

	"millwright.dev/pkg/controller"
)

func TestTheTableIsSound(t *testing.T) {
	for _, d := range Descriptors() { // panics if it is not
		for _, resource := range d.Requires {
			if resource.Group == "" || resource.Version == "" || resource.Resource == "" {
				t.Errorf("%s requires %v, which is not one of our resources", d.Name, resource)
			}
		}
	}
}

func TestAFaultyTableIsFoundOut(t *testing.T) {
	build := func(context.Context, *Context) (controller.Controller, error) { return nil, nil }
	for name, table := range map[string][]Descriptor{
		"no name":        {{New: build}},
		"no Deployment":  {{Name: "foo", New: build}},
		"no constructor": {{Name: "foo", Deployment: "core"}},
		"unknown role":   {{Name: "foo", Deployment: "core", EditRole: "edit", New: build}},
		"twice":          {{Name: "foo", Deployment: "core", New: build}, {Name: "foo", Deployment: "core", New: build}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			checked(table)
		})
	}
}

func TestControllersFlagSelects(t *testing.T) {
	table := []Descriptor{{Name: "bar"}, {Name: "baz"}, {Name: "foo"}}
	for _, tc := range []struct {
		name   string
		wanted []string
		want   []string
		err    string
	}{
		{name: "all", wanted: []string{"*"}, want: []string{"bar", "baz", "foo"}},
		{name: "one", wanted: []string{"foo"}, want: []string{"foo"}},
		{name: "in the order of the table", wanted: []string{"foo", "bar"}, want: []string{"bar", "foo"}},
		{name: "all but one", wanted: []string{"*", "-baz"}, want: []string{"bar", "foo"}},
		{name: "all but one, the other way round", wanted: []string{"-baz", "*"}, want: []string{"bar", "foo"}},
		{name: "all and one", wanted: []string{"*", "foo"}, want: []string{"bar", "baz", "foo"}},
		{name: "the first mention counts", wanted: []string{"foo", "-foo", "-bar", "bar"}, want: []string{"foo"}},
		{name: "unknown", wanted: []string{"*", "qux"}, err: `invalid --controllers "qux": must be '*' or one of bar, baz, foo`},
		{name: "unknown excluded", wanted: []string{"*", "-qux"}, err: `invalid --controllers "-qux": must be '*' or one of bar, baz, foo`},
		{name: "excluded from nothing", wanted: []string{"-foo"}, err: `invalid --controllers "-foo": must select a controller; '*' stands for all of them, as in '*,-foo'`},
		{name: "nothing", wanted: nil, err: `invalid --controllers "": must select a controller; '*' stands for all of them, as in '*,-foo'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			selected, err := selectControllers(table, tc.wanted)
			if got := names(selected); !slices.Equal(got, tc.want) {
				t.Errorf("selected %v, want %v", got, tc.want)
			}
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
