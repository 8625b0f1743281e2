// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/perturbation"
)

// newEngine returns the engine of one kind.
type newEngine = func(versioned.Interface, informers.Interface, engine.Config) (*engine.Controller, error)

// startEngine runs one instance of the engine for the CompositeController or DecoratorController of a namespace.
func startEngine(ctx context.Context, config *rest.Config, namespace string, newEngine newEngine) error {
	client, kubeClient, err := clients(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := objectcache.New(ctx, config, objectcache.Options{})
	if err != nil {
		return err
	}
	// Those of other runs would only cost time.
	selector := labels.SelectorFromSet(labels.Set{perturbation.RunLabel: namespace})
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = selector.String() }))
	defer ours.Shutdown()
	definitions := metadatainformer.NewSharedInformerFactory(metadataClient, 0)
	defer definitions.Shutdown()
	c, err := newEngine(client, ours.Metacontroller().V1alpha1(), engine.Config{
		KubeClient:     kubeClient,
		RESTConfig:     config,
		Definitions:    definitions.ForResource(engine.Definitions).Informer(),
		Objects:        objects,
		Recorder:       controller.StartEvents(ctx, kubeClient).Recorder(scheme.Scheme, engine.EventSource),
		Namespace:      namespace,
		TargetSelector: selector,
		Hooks:          engine.NewHookClient(2, 0),
	})
	if err != nil {
		return err
	}
	ours.StartWithContext(ctx)
	definitions.Start(ctx.Done())
	c.Run(ctx, 2)
	objects.Wait()
	return nil
}
