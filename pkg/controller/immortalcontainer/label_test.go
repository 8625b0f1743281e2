// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// storeAt is a cache that has reached a resourceVersion.
type storeAt string

func (s storeAt) LastStoreSyncResourceVersion() string { return string(s) }

func TestSyncWaitsForItsLabel(t *testing.T) {
	client := kubefake.NewClientset()
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-immortalpod", ResourceVersion: "7"}}, nil
	})
	key := cache.NewObjectName("shop", "web")
	container := &v1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"}}
	for version, reached := range map[storeAt]bool{"6": false, "7": true} {
		c := &Controller{kubeClient: client, podStore: version}
		o := &observed{container: container, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-immortalpod", UID: "uid-pod"}}}
		if err := (&reconciler{Controller: c, key: key, observed: o}).Apply(t.Context(), labelPod{"uid-pod"}); err != nil {
			t.Fatal(err)
		}
		if got := c.consistency.IsReady(key); got != reached {
			t.Errorf("with a cache at version %s the next sync decides: %v", version, got)
		}
	}
}
