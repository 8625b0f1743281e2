// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/patience"
)

type factory = externalversions.SharedInformerFactory

// urls is a transport that answers nothing.
type urls chan string

func (u urls) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case u <- req.URL.Path:
	default:
	}
	return nil, errors.New("no answer")
}

// TestInformersOfOwnKinds: each lists what the generated informer lists.
func TestInformersOfOwnKinds(t *testing.T) {
	for name, informer := range map[string]func(factory) cache.SharedIndexInformer{
		"helloapps": func(f factory) cache.SharedIndexInformer {
			return f.Apps().V1().HelloApps().Informer()
		},
		"actionsets": func(f factory) cache.SharedIndexInformer {
			return f.Cr().V1alpha1().ActionSets().Informer()
		},
		"blueprints": func(f factory) cache.SharedIndexInformer {
			return f.Cr().V1alpha1().Blueprints().Informer()
		},
		"immortalcontainers": func(f factory) cache.SharedIndexInformer {
			return f.Immortalcontainers().V1alpha1().ImmortalContainers().Informer()
		},
		"compositecontrollers": func(f factory) cache.SharedIndexInformer {
			return f.Metacontroller().V1alpha1().CompositeControllers().Informer()
		},
		"decoratorcontrollers": func(f factory) cache.SharedIndexInformer {
			return f.Metacontroller().V1alpha1().DecoratorControllers().Informer()
		},
		"machines": func(f factory) cache.SharedIndexInformer {
			return f.Useless().V1alpha1().Machines().Informer()
		},
		"switches": func(f factory) cache.SharedIndexInformer {
			return f.Useless().V1alpha1().Switches().Informer()
		},
	} {
		for _, namespace := range []string{"", "apps"} {
			requested := func(own bool) string {
				requests := make(urls, 1)
				client, err := versioned.NewForConfig(&rest.Config{Host: "http://server", Transport: requests})
				if err != nil {
					t.Fatal(err)
				}
				var informers factory = externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
				if own {
					informers = &ownInformers{SharedInformerFactory: informers, namespace: namespace}
				}
				ctx, cancel := context.WithCancel(t.Context())
				informer(informers)
				informers.StartWithContext(ctx)
				defer informers.Shutdown()
				defer cancel()
				select {
				case path := <-requests:
					return path
				case <-time.After(patience.Limit):
					t.Fatalf("the informer of %s sends no request", name)
				}
				return ""
			}
			if got, want := requested(true), requested(false); got != want {
				t.Errorf("%s in the namespace %q: the informer lists %s, want %s", name, namespace, got, want)
			}
		}
	}
}
