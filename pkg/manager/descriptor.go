// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/controller"
)

// Descriptor is a row of the table.
type Descriptor struct {
	// Name in --controllers, in logs, metrics, /readyz and User-Agents. Users depend on it: it never changes.
	Name string
	// Deployment runs the controller: "core" for millwright-core in manifests/30-core.yaml, with the rights in 21-core-role.yaml.
	Deployment string
	// Folder below pkg/controller has the RBAC markers of the controller; "" for that of its name.
	Folder string
	// EditRole is the role of users, in manifests/22-users.yaml, that may write the objects of Requires: EditRole or ActionsEditRole; "" if
	// only administrators of the cluster may.
	EditRole string
	// Options of this controller alone; nil if it has none.
	Options ControllerOptions
	// Serves are the resources whose status the controller writes. A CompositeController for them would fight with it.
	Serves []schema.GroupResource
	// Requires are the resources without which the controller cannot be built, as a rule those of our own CRDs. Until the
	// API server serves them, this controller waits and the others do not.
	Requires []schema.GroupVersionResource
	// Records are the resources of our own CRDs that the controller keeps records in, which users may read. It needs them for some objects only.
	Records []schema.GroupResource
	// New builds the controller. It does not talk to the API server: an error is a fault of the program or of its
	// configuration, and ends the process.
	New func(ctx context.Context, c *Context) (controller.Controller, error)
}

// The ClusterRoles of users. Their rules in manifests/22-users.yaml are generated.
const (
	// ViewRole reads all our kinds. It is part of the built-in roles view, edit and admin.
	ViewRole = "millwright-view"
	// EditRole is part of the built-in roles edit and admin.
	EditRole = "millwright-edit"
	// ActionsEditRole is part of no other role: its users act with the rights of the Deployment actions.
	ActionsEditRole = "millwright-actions-edit"
)

// ControllerOptions are the flags of one controller.
type ControllerOptions interface {
	// Group is the heading of the flags in the help.
	Group() string
	AddFlags(fs *pflag.FlagSet)
	// Validate returns an error for each value that is invalid.
	Validate() []error
	// ApplyTo sets what the options, which are valid, change for other parts of the process.
	ApplyTo(config *Config)
}

// Markers returns the folder below pkg/controller with the RBAC markers of the controller.
func (d Descriptor) Markers() string {
	if d.Folder != "" {
		return d.Folder
	}
	return d.Name
}

// checked panics if the table is faulty, so that every test that reads it finds out.
func checked(table []Descriptor) []Descriptor {
	names := sets.New[string]()
	for i, d := range table {
		switch {
		case d.Name == "":
			panic(fmt.Sprintf("controller %d of the table has no name", i))
		case names.Has(d.Name):
			panic(fmt.Sprintf("two controllers of the table are named %q", d.Name))
		case d.Deployment == "":
			panic(fmt.Sprintf("controller %q of the table has no Deployment", d.Name))
		case !sets.New("", EditRole, ActionsEditRole).Has(d.EditRole):
			panic(fmt.Sprintf("controller %q of the table has the unknown edit role %q", d.Name, d.EditRole))
		case d.New == nil:
			panic(fmt.Sprintf("controller %q of the table has no constructor", d.Name))
		}
		names.Insert(d.Name)
	}
	return table
}
