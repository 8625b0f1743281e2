// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package keywords

import (
	"testing"

	"k8s.io/gengo/v2/namer"
	"k8s.io/gengo/v2/types"
)

func TestAPrivateNameIsNeverAKeyword(t *testing.T) {
	systems := Avoid(namer.NameSystems{"private": namer.NewPrivateNamer(0), "public": namer.NewPublicNamer(0)})
	for kind, want := range map[string]string{"Switch": "switch_", "Machine": "machine", "Interface": "interface_"} {
		named := &types.Type{Name: types.Name{Package: "example.com/api/v1", Name: kind}}
		if got := systems["private"].Name(named); got != want {
			t.Errorf("private name of %s is %q, want %q", kind, got, want)
		}
		if got := systems["public"].Name(named); got != kind {
			t.Errorf("public name of %s is %q, want it unchanged", kind, got)
		}
	}
}
