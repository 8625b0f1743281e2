// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	crv1alpha1 "millwright.dev/pkg/apis/cr/v1alpha1"
	immortalcontainersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	metacontrollerv1alpha1 "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/actionset"
	"millwright.dev/pkg/controller/composite"
	"millwright.dev/pkg/controller/helloapp"
	"millwright.dev/pkg/controller/immortalcontainer"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/controller/servingcert"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
)

// defaultFarmNamespace is that of --farm-namespace.
const defaultFarmNamespace = servingcert.DefaultFarmNamespace

// hookController is the one that has workers of its own.
const hookController = composite.ControllerName

// Descriptors is the table of all controllers, in the order in which they are listed to users.
func Descriptors() []Descriptor {
	return checked([]Descriptor{
		{
			Name:   actionset.ControllerName,
			Serves: []schema.GroupResource{crv1alpha1.Resource("actionsets")},
			Requires: []schema.GroupVersionResource{
				crv1alpha1.Resource("actionsets").WithVersion(crv1alpha1.GroupVersion.Version),
				crv1alpha1.Resource("blueprints").WithVersion(crv1alpha1.GroupVersion.Version),
				crv1alpha1.Resource("profiles").WithVersion(crv1alpha1.GroupVersion.Version),
			},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				cr := c.Informers.Cr().V1alpha1()
				return actionset.New(ctx, actionset.Config{
					Client:         c.Client,
					KubeClient:     c.KubeClient,
					RESTConfig:     c.RESTConfig,
					ActionSets:     cr.ActionSets(),
					Blueprints:     cr.Blueprints(),
					Recorder:       c.Events.Recorder(scheme.Scheme, actionset.EventSource),
					ServiceAccount: c.Phases.ServiceAccount,

					OperatorNamespace: c.Phases.OperatorNamespace,
				})
			},
		},
		{
			Name:     composite.ControllerName,
			Serves:   []schema.GroupResource{metacontrollerv1alpha1.Resource("compositecontrollers")},
			Requires: []schema.GroupVersionResource{metacontrollerv1alpha1.Resource("compositecontrollers").WithVersion(metacontrollerv1alpha1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				builtIns, err := newBuiltIns(c)
				if err != nil {
					return nil, err
				}
				return composite.New(ctx, composite.Config{
					Client:         c.Client,
					KubeClient:     c.KubeClient,
					RESTConfig:     c.RESTConfig,
					Controllers:    c.Informers.Metacontroller().V1alpha1().CompositeControllers(),
					Definitions:    c.Metadata.ForResource(composite.Definitions).Informer(),
					Objects:        c.Objects,
					Recorder:       c.Events.Recorder(scheme.Scheme, composite.EventSource),
					Namespace:      c.Namespace,
					TargetSelector: c.Hooks.TargetSelector,
					Workers:        c.Hooks.Workers,
					BuiltIn:        builtIns.servedBy,
					AnswerMemory:   c.Hooks.AnswerMemory,
				})
			},
		},
		{
			Name:     helloapp.ControllerName,
			Serves:   []schema.GroupResource{appsv1.Resource("helloapps")},
			Requires: []schema.GroupVersionResource{appsv1.Resource("helloapps").WithVersion(appsv1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				return helloapp.New(ctx, c.Client, c.KubeClient,
					c.Informers.Apps().V1().HelloApps(), c.KubeInformers.Apps().V1().Deployments(), c.KubeInformers.Core().V1().Services(), c.Recorder)
			},
		},
		{
			Name:     immortalcontainer.ControllerName,
			Serves:   []schema.GroupResource{immortalcontainersv1alpha1.Resource("immortalcontainers")},
			Requires: []schema.GroupVersionResource{immortalcontainersv1alpha1.Resource("immortalcontainers").WithVersion(immortalcontainersv1alpha1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				return immortalcontainer.New(ctx, c.Client, c.KubeClient,
					c.Informers.Immortalcontainers().V1alpha1().ImmortalContainers(), c.KubeInformers.Core().V1().Pods(), c.Recorder)
			},
		},
		{
			Name:   machine.ControllerName,
			Serves: []schema.GroupResource{uselessv1alpha1.Resource("machines"), uselessv1alpha1.Resource("switches")},
			Requires: []schema.GroupVersionResource{
				uselessv1alpha1.Resource("machines").WithVersion(uselessv1alpha1.GroupVersion.Version),
				uselessv1alpha1.Resource("switches").WithVersion(uselessv1alpha1.GroupVersion.Version),
			},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				useless := c.Informers.Useless().V1alpha1()
				return machine.New(ctx, c.Client, useless.Machines(), useless.Switches(), c.Recorder)
			},
		},
		{
			Name:     servingcert.ControllerName,
			Requires: []schema.GroupVersionResource{servingcert.APIServices},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				client, err := dynamic.NewForConfig(c.RESTConfig)
				if err != nil {
					return nil, err
				}
				return servingcert.New(ctx, servingcert.Config{
					KubeClient:    c.KubeClient,
					Dynamic:       client,
					Select:        c.Select,
					Recorder:      c.Recorder,
					Namespace:     c.Namespace,
					FarmNamespace: c.FarmNamespace,
				})
			},
		},
	})
}

// Descriptor is a row of the table.
type Descriptor struct {
	// Name in --controllers, in logs, metrics, /readyz and User-Agents. Users depend on it: it never changes.
	Name string
	// Serves are the resources whose status the controller writes. A CompositeController for them would fight with it.
	Serves []schema.GroupResource
	// Requires are the resources without which the controller cannot be built, as a rule those of our own CRDs. Until the
	// API server serves them, this controller waits and the others do not.
	Requires []schema.GroupVersionResource
	// New builds the controller. It does not talk to the API server: an error is a fault of the program or of its
	// configuration, and ends the process.
	New func(ctx context.Context, c *Context) (controller.Controller, error)
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
		case d.New == nil:
			panic(fmt.Sprintf("controller %q of the table has no constructor", d.Name))
		}
		names.Insert(d.Name)
	}
	return table
}
