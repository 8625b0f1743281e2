// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
)

// ControllerName names the controller on the command line, in logs and in metrics.
const ControllerName = "compositecontroller"

// New returns the controller of CompositeControllers. It sets Name and Declarations of the config.
func New(
	ctx context.Context, client versioned.Interface, informer informers.TypedCompositeControllerInformer, config engine.Config,
) (*engine.Controller, error) {
	config.Name = ControllerName
	config.Declarations = Declarations(client, informer)
	return engine.New(ctx, config)
}

// Declarations returns the CompositeControllers as the engine uses them.
func Declarations(client versioned.Interface, informer informers.TypedCompositeControllerInformer) engine.Declarations {
	return engine.NewDeclarations(engine.Source[*v1alpha1.CompositeController]{
		Kind:     parent.Composite,
		Resource: v1alpha1.Resource("compositecontrollers"),
		Informer: informer.TypedInformer(),
		Lister:   informer.Lister(),
		Client:   client.MetacontrollerV1alpha1().CompositeControllers(),
		From:     parent.FromComposite,
		Copy:     (*v1alpha1.CompositeController).DeepCopy,
	})
}
