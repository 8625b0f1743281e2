// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package decorator

import (
	"context"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
)

// ControllerName names the controller on the command line, in logs and in metrics.
const ControllerName = "decoratorcontroller"

// New returns the controller of DecoratorControllers. It sets Name and Declarations of the config.
func New(
	ctx context.Context, client versioned.Interface, informer informers.TypedDecoratorControllerInformer, config engine.Config,
) (*engine.Controller, error) {
	config.Name = ControllerName
	config.Declarations = Declarations(client, informer)
	return engine.New(ctx, config)
}

// Declarations returns the DecoratorControllers as the engine uses them.
func Declarations(client versioned.Interface, informer informers.TypedDecoratorControllerInformer) engine.Declarations {
	return engine.NewDeclarations(engine.Source[*v1alpha1.DecoratorController]{
		Kind:     parent.Decorator,
		Resource: v1alpha1.Resource("decoratorcontrollers"),
		Informer: informer.TypedInformer(),
		Lister:   informer.Lister(),
		Client:   client.MetacontrollerV1alpha1().DecoratorControllers(),
		From:     parent.FromDecorator,
		Copy:     (*v1alpha1.DecoratorController).DeepCopy,
	})
}
