// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	crv1alpha1 "millwright.dev/pkg/apis/cr/v1alpha1"
	immortalcontainersv1alpha1 "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	metacontrollerv1alpha1 "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	uselessv1alpha1 "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/generated/informers/externalversions/apps"
	"millwright.dev/pkg/generated/informers/externalversions/cr"
	"millwright.dev/pkg/generated/informers/externalversions/immortalcontainers"
	"millwright.dev/pkg/generated/informers/externalversions/internalinterfaces"
	"millwright.dev/pkg/generated/informers/externalversions/metacontroller"
	"millwright.dev/pkg/generated/informers/externalversions/useless"
	"millwright.dev/pkg/listwatch"
)

// ownInformers is the generated factory of the informers of our own kinds, with lists and watches that leave out objects that cannot be decoded.
type ownInformers struct {
	externalversions.SharedInformerFactory
	namespace string
	// report is called with the metadata of an object that cannot be decoded, and a function that returns whether it can be decoded meanwhile.
	report func(object runtime.Object, err error, decoded func() bool)
}

func (o *ownInformers) Apps() apps.Interface { return apps.New(o, o.namespace, nil) }

func (o *ownInformers) Cr() cr.Interface { return cr.New(o, o.namespace, nil) }

func (o *ownInformers) Immortalcontainers() immortalcontainers.Interface {
	return immortalcontainers.New(o, o.namespace, nil)
}

func (o *ownInformers) Metacontroller() metacontroller.Interface {
	return metacontroller.New(o, o.namespace, nil)
}

func (o *ownInformers) Useless() useless.Interface { return useless.New(o, o.namespace, nil) }

// InformerFor implements internalinterfaces.SharedInformerFactory, with which the generated code makes each informer.
func (o *ownInformers) InformerFor(object runtime.Object, generated internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return o.SharedInformerFactory.InformerFor(object, func(client versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
		resource, restClient := clientOf(client, object)
		if fake, _ := restClient.(*rest.RESTClient); fake == nil {
			return generated(client, resync)
		}
		namespace := o.namespace
		if resource.Group == metacontrollerv1alpha1.GroupName { // its kinds are cluster-scoped
			namespace = metav1.NamespaceAll
		}
		var informer cache.SharedIndexInformer
		known := func(name cache.ObjectName) runtime.Object {
			found, _, _ := informer.GetStore().GetByKey(name.String())
			object, _ := found.(runtime.Object)
			return object
		}
		listWatch := listwatch.New(listwatch.Resource{Client: restClient, Name: resource.Resource, Namespace: namespace, Known: known,
			Report: func(object runtime.Object, err error) {
				name := cache.MetaObjectToName(object.(metav1.Object))
				o.report(object, err, func() bool { return known(name) != nil })
			},
		})
		options := cache.SharedIndexInformerOptions{
			ResyncPeriod: resync,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			Identifier:   o.InformerName().WithResource(resource),
		}
		informer = cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(listWatch, client), object, options)
		return informer
	})
}

// clientOf returns the resource of a kind that has a controller, and its client, which is nil for other kinds. That of a fake is a nil pointer.
func clientOf(client versioned.Interface, object runtime.Object) (schema.GroupVersionResource, rest.Interface) {
	switch object.(type) {
	case *appsv1.HelloApp:
		return appsv1.SchemeGroupVersion.WithResource("helloapps"), client.AppsV1().RESTClient()
	case *crv1alpha1.ActionSet:
		return crv1alpha1.SchemeGroupVersion.WithResource("actionsets"), client.CrV1alpha1().RESTClient()
	case *crv1alpha1.Blueprint:
		return crv1alpha1.SchemeGroupVersion.WithResource("blueprints"), client.CrV1alpha1().RESTClient()
	case *immortalcontainersv1alpha1.ImmortalContainer:
		return immortalcontainersv1alpha1.SchemeGroupVersion.WithResource("immortalcontainers"), client.ImmortalcontainersV1alpha1().RESTClient()
	case *metacontrollerv1alpha1.CompositeController:
		return metacontrollerv1alpha1.SchemeGroupVersion.WithResource("compositecontrollers"), client.MetacontrollerV1alpha1().RESTClient()
	case *metacontrollerv1alpha1.DecoratorController:
		return metacontrollerv1alpha1.SchemeGroupVersion.WithResource("decoratorcontrollers"), client.MetacontrollerV1alpha1().RESTClient()
	case *uselessv1alpha1.Machine:
		return uselessv1alpha1.SchemeGroupVersion.WithResource("machines"), client.UselessV1alpha1().RESTClient()
	case *uselessv1alpha1.Switch:
		return uselessv1alpha1.SchemeGroupVersion.WithResource("switches"), client.UselessV1alpha1().RESTClient()
	}
	return schema.GroupVersionResource{}, nil
}
