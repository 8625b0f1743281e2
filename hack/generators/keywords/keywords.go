// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keywords lets the code generators of Kubernetes name variables after kinds such as Switch, whose name is a
// keyword of Go when it begins with a small letter.
package keywords

import (
	"go/token"
	"maps"

	"k8s.io/gengo/v2/namer"
	"k8s.io/gengo/v2/types"
)

// Avoid returns the name systems with private names that are never keywords: those get an underscore.
func Avoid(systems namer.NameSystems) namer.NameSystems {
	systems = maps.Clone(systems)
	systems["private"] = avoiding{systems["private"]}
	return systems
}

type avoiding struct{ namer.Namer }

// Name implements namer.Namer.
func (n avoiding) Name(t *types.Type) string {
	name := n.Namer.Name(t)
	if token.IsKeyword(name) {
		return name + "_"
	}
	return name
}
