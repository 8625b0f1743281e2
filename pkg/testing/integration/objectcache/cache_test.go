// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/testing/testcluster"
)

// configMap returns a ConfigMap whose label and data depend on the shape.
func configMap(namespace, name string, shape int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": fmt.Sprintf("app%d", shape%3)}},
		Data:       map[string]string{"value": fmt.Sprint(shape), "text": "<two>  spaces & \"quotes\""},
	}
}

// churn creates, changes and deletes count objects in random order, with rounds operations in all.
func churn(t *testing.T, client kubernetes.Interface, namespaces []string, count, rounds int) {
	t.Helper()
	var workers sync.WaitGroup
	const parallel = 8
	for worker := range parallel {
		workers.Go(func() {
			random := rand.New(rand.NewSource(int64(worker)))
			for range rounds / parallel {
				namespace := namespaces[random.Intn(len(namespaces))]
				name := fmt.Sprintf("object-%d", random.Intn(count/parallel)*parallel+worker)
				object := configMap(namespace, name, random.Intn(1000))
				maps := client.CoreV1().ConfigMaps(namespace)
				var err error
				if random.Intn(3) == 0 {
					err = maps.Delete(context.Background(), name, metav1.DeleteOptions{})
				} else if _, err = maps.Update(context.Background(), object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
					_, err = maps.Create(context.Background(), object, metav1.CreateOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

func TestChurn(t *testing.T) {
	cluster := testcluster.Shared(t)
	bothWays(t, func(t *testing.T) {
		namespace := cluster.Namespace(t)
		u := acquire(t, newCache(t, cluster.Config()), objectcache.Request{Resource: configMaps, Namespace: namespace})
		churn(t, kube(t, cluster.Config()), []string{namespace}, 1000, 4000)
		u.wantUpToDate(t, cluster.Config())
		// Objects from a list have the same bytes as those from a watch.
		fresh := acquire(t, newCache(t, cluster.Config()), objectcache.Request{Resource: configMaps, Namespace: namespace})
		fresh.wantUpToDate(t, cluster.Config())
		for _, o := range fresh.List("", nil) {
			if other := u.Get(o.GetNamespace(), o.GetName()); other == nil || other.JSON() != o.JSON() {
				t.Fatalf("listed: %s\nwatched: %v", o.JSON(), other)
			}
		}
	})
}

func TestUsersUnderChurn(t *testing.T) {
	cluster := testcluster.Shared(t)
	bothWays(t, func(t *testing.T) {
		one, two := cluster.Namespace(t), cluster.Namespace(t)
		objects := newCache(t, cluster.Config())
		stays := acquire(t, objects, objectcache.Request{Resource: configMaps, Namespace: one})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			churn(t, kube(t, cluster.Config()), []string{one, two}, 200, 4000)
		}()
		random := rand.New(rand.NewSource(1))
		var others []*user
		for churning := true; churning; {
			request := objectcache.Request{Resource: configMaps, Namespace: []string{one, two, ""}[random.Intn(3)]}
			if random.Intn(2) == 0 {
				request.Selector = labels.SelectorFromSet(labels.Set{"app": "app1"})
			}
			others = append(others, acquire(t, objects, request))
			if len(others) > 3 {
				others[0].Release()
				others = others[1:]
			}
			select {
			case <-ended:
				churning = false
			case <-time.After(time.Duration(random.Intn(150)) * time.Millisecond):
			}
		}
		for _, u := range append(others, stays) {
			u.wantUpToDate(t, cluster.Config())
		}
	})
}

func TestListAfterCompaction(t *testing.T) {
	cluster := testcluster.Start(t)
	bothWays(t, func(t *testing.T) {
		namespace := cluster.Namespace(t)
		client := kube(t, cluster.Config())
		churn(t, client, []string{namespace}, 50, 200)
		config, line := breakable(cluster.Config())
		u := acquire(t, newCache(t, config), objectcache.Request{Resource: configMaps, Namespace: namespace})
		u.wantUpToDate(t, cluster.Config())
		line.interrupt()
		churn(t, client, []string{namespace}, 50, 200)
		cluster.Compact(t)
		cluster.Restart(t)
		eventually(t, func() string {
			if problem := u.Problem(); problem == nil || !strings.Contains(problem.Error(), "the line is broken") {
				return fmt.Sprintf("problem: got %v, want the broken line", problem)
			}
			return ""
		})
		line.restore()
		u.wantUpToDate(t, cluster.Config())
	})
}

func TestForbiddenNamesMissingRule(t *testing.T) {
	cluster := testcluster.Shared(t)
	config := cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "norights"}
	u := acquire(t, newCache(t, config), objectcache.Request{Resource: configMaps})
	eventually(t, func() string {
		problem := u.Problem()
		if !apierrors.IsForbidden(problem) || !strings.Contains(problem.Error(), `{apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch"]}`) {
			return fmt.Sprintf("problem: got %v, want forbidden with the missing rule", problem)
		}
		return ""
	})
}
