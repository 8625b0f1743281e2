// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/fakeapi"
)

// TestRelatedObjectsOfAnAPIServer has all parts together, the API server in memory.
func TestRelatedObjectsOfAnAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New(t, fakeapi.ConfigMaps, fakeapi.Secrets, fakeapi.Namespaces)
		maps, inNamespaces := fakeapi.Of[corev1.ConfigMap](api, fakeapi.ConfigMaps), fakeapi.Of[corev1.Namespace](api, fakeapi.Namespaces)
		for _, name := range []string{"n1", "n2"} {
			inNamespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
			maps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "config"}, Data: map[string]string{"a": "b"}})
		}
		forbidden := apierrors.NewForbidden(secrets.GroupResource(), "", errors.New("no"))
		api.FailIf(func(r *fakeapi.Request) error {
			if r.Resource == secrets {
				return forbidden
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		objects, err := objectcache.New(ctx, api.Config(), objectcache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			stop()
			objects.Wait()
		}()
		var mu sync.Mutex
		var queued []string
		watcher := NewWatcher(objects, func(keys ...string) {
			mu.Lock()
			defer mu.Unlock()
			queued = append(queued, keys...)
		}, func() {})
		defer watcher.Close()
		wantQueued := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(queued)
			if diff := cmp.Diff(want, slices.Compact(queued)); diff != "" {
				t.Errorf("queued: %s", diff)
			}
			queued = nil
		}
		names := func(key string) (found []string) {
			t.Helper()
			selection, status := watcher.Select(key)
			if !status.Synced {
				t.Fatalf("%s is not synced: %v", key, status.Problem)
			}
			for _, group := range selection.Groups {
				for _, o := range group.Objects {
					found = append(found, group.Kind+" "+o.Namespace+"/"+o.Name)
				}
			}
			return found
		}

		byName := compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","namespace":"n1","names":["config"]}`)
		byNamespace := compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","namespaceSelector":{"matchLabels":{"name":"n2"}}}`)
		watcher.Ensure("by name", byName)
		wantQueued("by name")
		if watches := api.Watches(); !slices.Equal(watches, []string{"configmaps n1 metadata.name=config"}) {
			t.Errorf("one object by name is watched by %q", watches)
		}
		watcher.Ensure("by namespace", byNamespace)
		wantQueued("by namespace")
		for key, want := range map[string]string{"by name": "ConfigMap n1/config", "by namespace": "ConfigMap n2/config"} {
			if diff := cmp.Diff([]string{want}, names(key)); diff != "" {
				t.Errorf("%s: %s", key, diff)
			}
		}
		maps.Update("n1", "config", func(o *corev1.ConfigMap) { o.Data["a"] = "c" })
		wantQueued("by name")
		inNamespaces.Update("", "n1", func(o *corev1.Namespace) { o.Labels["name"] = "n2" })
		wantQueued("by namespace")
		if diff := cmp.Diff([]string{"ConfigMap n1/config", "ConfigMap n2/config"}, names("by namespace")); diff != "" {
			t.Error(diff)
		}
		maps.Update("n1", "config", func(o *corev1.ConfigMap) { o.Data["a"] = "d" })
		wantQueued("by name", "by namespace")

		both := compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps"}`, `{"apiVersion":"v1","resource":"secrets"}`)
		watcher.Ensure("both", both)
		wantQueued("both")
		status := watcher.Ensure("both", both)
		const rule = `add to a ClusterRole of this account the rule {apiGroups: [""], resources: ["secrets"], verbs: ["list", "watch"]}`
		if status.Synced || !apierrors.IsForbidden(status.Problem) || !strings.Contains(status.Problem.Error(), rule) {
			t.Errorf("%+v", status)
		}
		api.FailIf(nil)
		time.Sleep(time.Minute)
		wantQueued("both")
		if got := names("both"); len(got) != 2 {
			t.Errorf("selected: %q", got)
		}
		for _, key := range []string{"by name", "by namespace", "both"} {
			watcher.Release(key)
		}
		time.Sleep(2 * releaseDelay)
		if counts := watcher.Counts(); counts != (Counts{}) {
			t.Errorf("at the end there are %+v", counts)
		}
	})
}
