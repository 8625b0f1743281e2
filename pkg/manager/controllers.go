// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	crv1alpha1 "millwright.dev/pkg/apis/cr/v1alpha1"
	immortalcontainersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	metacontrollerv1alpha1 "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/actionset"
	"millwright.dev/pkg/controller/composite"
	"millwright.dev/pkg/controller/decorator"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/controller/helloapp"
	"millwright.dev/pkg/controller/immortalcontainer"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/controller/servingcert"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/hook"
)

// engineDeployment is that of the controllers with hooks.
const engineDeployment = "engine"

// engine returns what the controllers that call hooks have in common. They share the client of hooks, and with it the limits of calls and of memory.
func (o *hookOptions) engine(c *Context) (engine.Config, error) {
	builtIns, err := newBuiltIns(c)
	if err != nil {
		return engine.Config{}, err
	}
	return engine.Config{
		KubeClient:     c.KubeClient,
		RESTConfig:     c.RESTConfig,
		Definitions:    c.Metadata.ForResource(engine.Definitions).Informer(),
		Objects:        c.Objects,
		Recorder:       c.Events.Recorder(scheme.Scheme, engine.EventSource),
		Namespace:      c.Namespace,
		TargetSelector: o.targets(),
		Workers:        o.Workers,
		BuiltIn:        builtIns.servedBy,
		Hooks:          o.client(),
		ApplyStrategy:  o.ApplyStrategy,
		FieldManager:   o.FieldManager,
	}, nil
}

// client returns the client of hooks, which is made once.
func (o *hookOptions) client() *hook.Client {
	o.once.Do(func() { o.hooks = engine.NewHookClient(o.Workers, o.answerMemory()) })
	return o.hooks
}

// Descriptors returns the table of all controllers, in the order in which they are listed to users. Each call returns options of its own.
func Descriptors() []Descriptor {
	hooks, phases, certificate := newHookOptions(), &phaseOptions{}, &certificateOptions{FarmNamespace: servingcert.DefaultFarmNamespace}
	return checked([]Descriptor{
		{
			Name:       actionset.ControllerName,
			Deployment: "actions",
			EditRole:   ActionsEditRole,
			Options:    phases,
			Serves:     []schema.GroupResource{crv1alpha1.Resource("actionsets")},
			Requires: []schema.GroupVersionResource{
				crv1alpha1.Resource("actionsets").WithVersion(crv1alpha1.GroupVersion.Version),
				crv1alpha1.Resource("blueprints").WithVersion(crv1alpha1.GroupVersion.Version),
				crv1alpha1.Resource("profiles").WithVersion(crv1alpha1.GroupVersion.Version),
			},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				cr := c.Informers.Cr().V1alpha1()
				return actionset.New(ctx, actionset.Config{
					Client:            c.Client,
					KubeClient:        c.KubeClient,
					RESTConfig:        c.RESTConfig,
					ActionSets:        cr.ActionSets(),
					Blueprints:        cr.Blueprints(),
					Recorder:          c.Events.Recorder(scheme.Scheme, actionset.EventSource),
					ServiceAccount:    phases.ServiceAccount,
					Namespace:         c.Namespace,
					OperatorNamespace: c.OperatorNamespace,
				})
			},
		},
		{
			Name:       composite.ControllerName,
			Deployment: engineDeployment,
			Folder:     "composite",
			Options:    hooks,
			Serves:     []schema.GroupResource{metacontrollerv1alpha1.Resource("compositecontrollers")},
			Requires:   []schema.GroupVersionResource{metacontrollerv1alpha1.Resource("compositecontrollers").WithVersion(metacontrollerv1alpha1.GroupVersion.Version)},
			Records:    []schema.GroupResource{metacontrollerv1alpha1.Resource("controllerrevisions")},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				config, err := hooks.engine(c)
				if err != nil {
					return nil, err
				}
				return composite.New(ctx, c.Client, c.Informers.Metacontroller().V1alpha1().CompositeControllers(), config)
			},
		},
		{
			Name:       decorator.ControllerName,
			Deployment: "engine",
			Folder:     "decorator",
			Serves:     []schema.GroupResource{metacontrollerv1alpha1.Resource("decoratorcontrollers")},
			Requires:   []schema.GroupVersionResource{metacontrollerv1alpha1.Resource("decoratorcontrollers").WithVersion(metacontrollerv1alpha1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				config, err := hooks.engine(c)
				if err != nil {
					return nil, err
				}
				return decorator.New(ctx, c.Client, c.Informers.Metacontroller().V1alpha1().DecoratorControllers(), config)
			},
		},
		{
			Name:       helloapp.ControllerName,
			Deployment: "core",
			EditRole:   EditRole,
			Serves:     []schema.GroupResource{appsv1.Resource("helloapps")},
			Requires:   []schema.GroupVersionResource{appsv1.Resource("helloapps").WithVersion(appsv1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				return helloapp.New(ctx, c.Client, c.KubeClient,
					c.Informers.Apps().V1().HelloApps(), c.KubeInformers.Apps().V1().Deployments(), c.KubeInformers.Core().V1().Services(), c.Recorder)
			},
		},
		{
			Name:       immortalcontainer.ControllerName,
			Deployment: "core",
			EditRole:   EditRole,
			Serves:     []schema.GroupResource{immortalcontainersv1alpha1.Resource("immortalcontainers")},
			Requires:   []schema.GroupVersionResource{immortalcontainersv1alpha1.Resource("immortalcontainers").WithVersion(immortalcontainersv1alpha1.GroupVersion.Version)},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				return immortalcontainer.New(ctx, c.Client, c.KubeClient,
					c.Informers.Immortalcontainers().V1alpha1().ImmortalContainers(), c.KubeInformers.Core().V1().Pods(), c.Recorder)
			},
		},
		{
			Name:       machine.ControllerName,
			Deployment: "core",
			EditRole:   EditRole,
			Serves:     []schema.GroupResource{uselessv1alpha1.Resource("machines"), uselessv1alpha1.Resource("switches")},
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
			Name:       servingcert.ControllerName,
			Deployment: "core",
			Options:    certificate,
			Requires:   []schema.GroupVersionResource{servingcert.APIServices},
			New: func(ctx context.Context, c *Context) (controller.Controller, error) {
				client, err := dynamic.NewForConfig(c.RESTConfig)
				if err != nil {
					return nil, err
				}
				return servingcert.New(ctx, servingcert.Config{
					KubeClient:        c.KubeClient,
					Dynamic:           client,
					Select:            c.Select,
					Recorder:          c.Recorder,
					Namespace:         c.Namespace,
					FarmNamespace:     certificate.FarmNamespace,
					OperatorNamespace: c.OperatorNamespace,
				})
			},
		},
	})
}
