// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

func TestParentsRecord(t *testing.T) {
	type rules = []v1alpha1.ResourceRule
	things := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}
	older := v1alpha1.ResourceRule{APIVersion: "example.com/v1beta1", Resource: "things"}
	others := v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "others"}
	elsewhere := v1alpha1.ResourceRule{APIVersion: "elsewhere.com/v1", Resource: "things"}
	invalid := v1alpha1.ResourceRule{APIVersion: "a/b/c", Resource: "things"}
	for name, test := range map[string]struct {
		parents  v1alpha1.ResourceRule
		finalize bool
		own      bool // whether the CompositeController has its own finalizer
		recorded rules
		want     rules
		former   rules
	}{
		"before the first parent gets it": {parents: things, finalize: true, own: true, want: rules{things}},
		"once":                            {parents: things, finalize: true, own: true, recorded: rules{things}, want: rules{things}},
		"no finalize hook":                {parents: things},
		"another version of the type":     {parents: things, finalize: true, own: true, recorded: rules{older}, want: rules{things}},
		"another type": {
			parents: things, finalize: true, own: true, recorded: rules{others}, want: rules{others, things}, former: rules{others},
		},
		"a type of another group": {
			parents: things, finalize: true, own: true, recorded: rules{elsewhere}, want: rules{elsewhere, things}, former: rules{elsewhere},
		},
		"two edits": {
			parents: things, finalize: true, own: true,
			recorded: rules{others, elsewhere}, want: rules{others, elsewhere, things}, former: rules{others, elsewhere},
		},
		"an invalid type":                       {parents: invalid, finalize: true, own: true, recorded: rules{things}, want: rules{things}},
		"finalize is removed":                   {parents: things, own: true, recorded: rules{things}, want: rules{things}},
		"finalize is removed, and no finalizer": {parents: things, recorded: rules{things}},
		"finalize is removed, another type":     {parents: things, own: true, recorded: rules{others}, want: rules{others}, former: rules{others}},
	} {
		t.Run(name, func(t *testing.T) {
			cc := controllerWith(func(spec *v1alpha1.CompositeControllerSpec) { spec.ParentResource.ResourceRule = test.parents })
			if test.finalize {
				withFinalize(&cc.Spec)
			}
			if test.own {
				cc.Finalizers = []string{finalizer}
			}
			cc.Status.FinalizedParents = test.recorded
			before := cc.DeepCopy()
			if diff := cmp.Diff(test.want, parentsRecord(declared(cc)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.former, formerParents(declared(cc)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("former (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, cc); diff != "" {
				t.Errorf("the CompositeController was changed:\n%s", diff)
			}
		})
	}
}
