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

// lister hides from a reflector that its client could begin a watch with all objects.
type lister struct{ cache.ListerWatcher }

// IsWatchListSemanticsUnSupported is what client-go looks for.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// objectsSeen are those that an informer knows, and how they came to be known.
type objectsSeen struct {
	*farmEnv
	informer cache.SharedIndexInformer
}

// runInformer runs it until the test ends, and returns when it has synced.
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

// awaits that it has just the objects of these names.
func (s *objectsSeen) awaits(wanted ...string) {
	s.Helper()
	s.eventually(func() string {
		var names []string
		for _, key := range s.informer.GetStore().ListKeys() {
			names = append(names, strings.TrimPrefix(key, s.namespace+"/"))
		}
		slices.Sort(names)
		if !slices.Equal(names, wanted) {
			return fmt.Sprintf("it has %v, not %v", names, wanted)
		}
		return ""
	})
}

// requestNotes are of the reads that a client has sent.
type requestNotes struct {
	mu    sync.Mutex
	reads []*url.URL
}

// noteAllOf the clients that are made of the configuration.
func (n *requestNotes) noteAllOf(config *rest.Config) {
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

// count the lists of a resource, and the watches that begin with all objects.
func (n *requestNotes) count(resource string) (lists, beginWithAll int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, read := range n.reads {
		switch query := read.Query(); {
		case path.Base(read.Path) != resource:
		case !query.Has("watch"):
			lists++
		case query.Get("sendInitialEvents") == "true":
			beginWithAll++
		}
	}
	return lists, beginWithAll
}

func TestFarmInformers(t *testing.T) {
	e := inSharedFarm(t)
	e.createLlama(newLlama("amy"))
	e.createPod("one", 1)
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("a watch that begins with all: %v", watchList), func(t *testing.T) {
			var asked requestNotes
			config := e.cluster.Config()
			asked.noteAllOf(config)
			client, err := versioned.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			through := &farmEnv{env: &env{T: t, cluster: e.cluster, namespace: e.namespace}}
			factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(e.namespace))
			llamas, pods := factory.Farm().V1alpha().Llamas().Informer(), factory.Farm().V1alpha().FarmPods().Informer()
			if !watchList {
				farm := client.FarmV1alpha()
				llamas = cache.NewSharedIndexInformer(lister{listWatch(farm.Llamas(e.namespace).List, farm.Llamas(e.namespace).Watch)}, &farmv1alpha.Llama{}, 0, cache.Indexers{})
				pods = cache.NewSharedIndexInformer(lister{listWatch(farm.FarmPods(e.namespace).List, farm.FarmPods(e.namespace).Watch)}, &farmv1alpha.FarmPod{}, 0, cache.Indexers{})
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
				lists, begins := asked.count(resource)
				if watchList && (lists != 0 || begins != 1) || !watchList && (lists != 1 || begins != 0) {
					t.Errorf("%s: %d lists and %d watches that begin with all", resource, lists, begins)
				}
			}
		})
	}
}

// listWatch is what generated clients are for an informer.
func listWatch[List runtime.Object](list func(context.Context, metav1.ListOptions) (List, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) *cache.ListWatch {
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
		return e.runInformer(metadatainformer.NewFilteredMetadataInformer(client, farmv1alpha.Resource(resource).WithVersion("v1alpha"), e.namespace, 0, cache.Indexers{}, nil).Informer())
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
	if amy, ok := object.(*metav1.PartialObjectMetadata); !ok || amy.Labels["herd"] != "north" || amy.UID != e.llama("amy").UID || amy.ResourceVersion != e.llama("amy").ResourceVersion {
		t.Errorf("it knows %+v", object)
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
			t.Errorf("%s: the table is %s", include, body)
			continue
		}
		var object metav1.TypeMeta
		if raw := table.Rows[0].Object.Raw; string(raw) != "null" && len(raw) > 0 {
			if err := json.Unmarshal(raw, &object); err != nil {
				t.Fatal(err)
			}
		}
		if object.Kind != kind {
			t.Errorf("%s: the row has a %q", include, object.Kind)
		}
	}
}
