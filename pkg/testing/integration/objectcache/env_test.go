// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(measuredKubeconfig); kubeconfig != "" {
		result, err := measured(kubeconfig)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testcluster.Main(m)
}

// bothWays runs a test with watch lists, and with lists.
func bothWays(t *testing.T, test func(t *testing.T)) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchListClient=%v", on), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, on)
			test(t)
		})
	}
}

// newCache returns a cache that lives until the test ends.
func newCache(t testing.TB, config *rest.Config) *objectcache.Cache {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	objects, err := objectcache.New(ctx, config, objectcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		objects.Wait()
	})
	return objects
}

func kube(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// user is a user of the cache. It records the changes that the cache reports, and fails the test if they contradict each other.
type user struct {
	*objectcache.Handle
	t       testing.TB
	request objectcache.Request

	mu   sync.Mutex
	seen map[string]*objectcache.RawObject // by namespace/name
	last map[string]string                 // the newest resourceVersion of each
}

func acquire(t testing.TB, objects *objectcache.Cache, request objectcache.Request) *user {
	t.Helper()
	u := &user{t: t, seen: map[string]*objectcache.RawObject{}, last: map[string]string{}}
	request.OnChange = u.change
	u.request = request
	handle, err := objects.Acquire(request)
	if err != nil {
		t.Fatal(err)
	}
	u.Handle = handle
	return u
}

func (u *user) change(old, new *objectcache.RawObject) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := old
	if new != nil {
		at = new
	}
	name := at.GetNamespace() + "/" + at.GetName()
	if u.seen[name] != old {
		u.t.Errorf("old object in the change of %s: got %v, want that of the last change", name, old)
	}
	if new == nil {
		delete(u.seen, name)
		return
	}
	if order, err := resourceversion.CompareResourceVersion(new.GetResourceVersion(), u.last[name]); err == nil && order < 0 {
		u.t.Errorf("resourceVersion of %s: got %s after %s, want a larger one", name, new.GetResourceVersion(), u.last[name])
	}
	u.last[name] = new.GetResourceVersion()
	u.seen[name] = new
}

// difference compares the reported objects with those of the API server, byte by byte.
func (u *user) difference(client dynamic.Interface) string {
	options := metav1.ListOptions{}
	if u.request.Selector != nil {
		options.LabelSelector = u.request.Selector.String()
	}
	list, err := client.Resource(u.request.Resource).Namespace(u.request.Namespace).List(u.t.Context(), options)
	if err != nil {
		return err.Error()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	count := 0
	for _, item := range list.Items {
		if u.request.Name != "" && item.GetName() != u.request.Name {
			continue
		}
		count++
		name := item.GetNamespace() + "/" + item.GetName()
		seen := u.seen[name]
		if seen == nil || u.Get(item.GetNamespace(), item.GetName()) != seen {
			return name + " was not reported, or is not the object that Get returns"
		}
		if same, err := sameContent(item, seen); err != nil || !same {
			return fmt.Sprintf("content of %s differs: got %s (%v)", name, seen.JSON(), err)
		}
	}
	if count != len(u.seen) || count != len(u.List("", nil)) {
		return fmt.Sprintf("got %d objects reported and %d listed, want %d", len(u.seen), len(u.List("", nil)), count)
	}
	if !u.HasSynced() || u.Problem() != nil {
		return fmt.Sprintf("synced: %v, problem: %v", u.HasSynced(), u.Problem())
	}
	return ""
}

// sameContent compares canonical JSON.
func sameContent(item unstructured.Unstructured, o *objectcache.RawObject) (bool, error) {
	item.SetManagedFields(nil)
	want, err := json.Marshal(item.Object)
	if err != nil {
		return false, err
	}
	var tree map[string]any
	if err := utiljson.Unmarshal([]byte(o.JSON()), &tree); err != nil {
		return false, err
	}
	got, err := json.Marshal(tree)
	return bytes.Equal(want, got), err
}

// wantUpToDate waits until the cache has reported all objects of the API server.
func (u *user) wantUpToDate(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return u.difference(client) })
}

// eventually waits until check returns "". It fails the test with the last complaint.
func eventually(t *testing.T, check func() (complaint string)) {
	t.Helper()
	if complaint := patience.Eventually(t.Context(), check); complaint != "" {
		t.Fatal(complaint)
	}
}

// line is a connection that can be interrupted.
type line struct {
	mu    sync.Mutex
	whole context.Context // ends when the line is interrupted
	cut   context.CancelFunc
}

var errBroken = errors.New("the line is broken")

// breakable returns a configuration whose requests fail while the line is broken.
func breakable(config *rest.Config) (*rest.Config, *line) {
	l := &line{}
	l.restore()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			l.mu.Lock()
			whole := l.whole
			l.mu.Unlock()
			if whole.Err() != nil {
				return nil, errBroken
			}
			ctx, stop := context.WithCancel(request.Context())
			context.AfterFunc(whole, stop)
			return inner.RoundTrip(request.WithContext(ctx))
		})
	})
	return config, l
}

// interrupt ends all requests. Requests fail until restore.
func (l *line) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

func (l *line) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole, l.cut = context.WithCancel(context.Background())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
