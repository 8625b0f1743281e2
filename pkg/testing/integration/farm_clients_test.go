// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/informers/externalversions"
)

// lister is a ListerWatcher that does not support watch lists: the reflector has to list.
type lister struct{ cache.ListerWatcher }

// IsWatchListSemanticsUnSupported is a method that client-go looks for.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// objectsSeen are the objects in the store of an informer.
type objectsSeen struct {
	*farmEnv
	informer cache.SharedIndexInformer
}

// runInformer runs an informer until the test ends, and waits until it has synced.
func (e *farmEnv) runInformer(informer cache.SharedIndexInformer) *objectsSeen {
	e.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	e.Cleanup(func() {
		cancel()
		<-ended
	})
	e.eventually(func() string {
		if !informer.HasSynced() {
			return "the informer has not synced"
		}
		return ""
	})
	return &objectsSeen{farmEnv: e, informer: informer}
}

// awaits waits until the informer has exactly the objects of these names.
func (s *objectsSeen) awaits(wanted ...string) {
	s.Helper()
	s.eventually(func() string {
		var names []string
		for _, key := range s.informer.GetStore().ListKeys() {
			names = append(names, strings.TrimPrefix(key, s.namespace+"/"))
		}
		slices.Sort(names)
		if !slices.Equal(names, wanted) {
			return fmt.Sprintf("objects of the informer: got %v, want %v", names, wanted)
		}
		return ""
	})
}

// sentReads records the reads that a client has sent.
type sentReads struct {
	mu    sync.Mutex
	reads []*url.URL
}

// record records the reads of all clients that use the configuration.
func (n *sentReads) record(config *rest.Config) {
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			n.mu.Lock()
			n.reads = append(n.reads, request.URL)
			n.mu.Unlock()
			return transport.RoundTrip(request)
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// count returns the numbers of LISTs and of watch lists of a resource.
func (n *sentReads) count(resource string) (lists, watchLists int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, read := range n.reads {
		switch query := read.Query(); {
		case path.Base(read.Path) != resource:
		case !query.Has("watch"):
			lists++
		case query.Get("sendInitialEvents") == "true":
			watchLists++
		}
	}
	return lists, watchLists
}

func TestFarmInformers(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy"))
	e.createPod("one", 1)
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("watch list %v", watchList), func(t *testing.T) {
			var sent sentReads
			config := e.cluster.Config()
			sent.record(config)
			client, err := versioned.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			through := &farmEnv{env: &env{T: t, cluster: e.cluster, namespace: e.namespace}}
			factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(e.namespace))
			llamas, pods := factory.Farm().V1alpha().Llamas().Informer(), factory.Farm().V1alpha().FarmPods().Informer()
			if !watchList {
				farm := client.FarmV1alpha()
				listLlamas, listPods := farm.Llamas(e.namespace), farm.FarmPods(e.namespace)
				llamas = cache.NewSharedIndexInformer(lister{listWatch(listLlamas.List, listLlamas.Watch)}, &farmv1alpha.Llama{}, 0, cache.Indexers{})
				pods = cache.NewSharedIndexInformer(lister{listWatch(listPods.List, listPods.Watch)}, &farmv1alpha.FarmPod{}, 0, cache.Indexers{})
			}
			seenLlamas, seenPods := through.runInformer(llamas), through.runInformer(pods)
			seenLlamas.awaits("amy")
			seenPods.awaits("farm-one")
			e.createLlama(newLlama("bea"))
			e.createPod("two", 2)
			seenLlamas.awaits("amy", "bea")
			seenPods.awaits("farm-one", "farm-two")
			if err := e.llamas.Delete(t.Context(), "bea", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			now := int64(0)
			if err := e.kube.CoreV1().Pods(e.namespace).Delete(t.Context(), "two", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
			seenLlamas.awaits("amy")
			seenPods.awaits("farm-one")
			for _, resource := range []string{"llamas", "farmpods"} {
				lists, watchLists := sent.count(resource)
				if watchList && (lists != 0 || watchLists != 1) || !watchList && (lists != 1 || watchLists != 0) {
					t.Errorf("%s: got %d lists and %d watch lists, want one of the right sort", resource, lists, watchLists)
				}
			}
		})
	}
}

// listWatch returns a ListWatch of the methods of a generated client.
func listWatch[List runtime.Object](
	list func(context.Context, metav1.ListOptions) (List, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, options)
		},
		WatchFuncWithContext: watch,
	}
}

func TestFarmMetadataInformers(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy", labelled("herd", "north")))
	e.createPod("one", 1)
	client, err := metadata.NewForConfig(e.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	follow := func(resource string) *objectsSeen {
		gvr := farmv1alpha.Resource(resource).WithVersion("v1alpha")
		return e.runInformer(metadatainformer.NewFilteredMetadataInformer(client, gvr, e.namespace, 0, cache.Indexers{}, nil).Informer())
	}
	llamas, pods := follow("llamas"), follow("farmpods")
	llamas.awaits("amy")
	pods.awaits("farm-one")
	e.createLlama(newLlama("bea"))
	llamas.awaits("amy", "bea")
	object, _, err := llamas.informer.GetStore().GetByKey(e.namespace + "/amy")
	if err != nil {
		t.Fatal(err)
	}
	want := e.llama("amy")
	if amy, ok := object.(*metav1.PartialObjectMetadata); !ok || amy.Labels["herd"] != "north" || amy.UID != want.UID || amy.ResourceVersion != want.ResourceVersion {
		t.Errorf("object of the informer: got %+v, want the metadata of %+v", object, want)
	}
}

func TestFarmTables(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy"))
	for include, kind := range map[string]string{"None": "", "Metadata": "PartialObjectMetadata", "Object": "Llama"} {
		body, err := e.client.FarmV1alpha().RESTClient().Get().Namespace(e.namespace).Resource("llamas").Param("includeObject", include).
			SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil {
			t.Fatal(err)
		}
		if table.ResourceVersion == "" || len(table.Rows) != 1 || fmt.Sprint(table.Rows[0].Cells[:3]) != "[amy 31.4 0.5]" {
			t.Errorf("includeObject=%s: got table %s", include, body)
			continue
		}
		var object metav1.TypeMeta
		if raw := table.Rows[0].Object.Raw; string(raw) != "null" && len(raw) > 0 {
			if err := json.Unmarshal(raw, &object); err != nil {
				t.Fatal(err)
			}
		}
		if object.Kind != kind {
			t.Errorf("includeObject=%s: got kind %q in the row, want %q", include, object.Kind, kind)
		}
	}
}
