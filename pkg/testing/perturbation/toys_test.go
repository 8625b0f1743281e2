// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/testing/testcluster"
)

// Toys test the harness: controllers of a few lines, each once with a classic bug and once without. Undisturbed runs of both are correct.
// The harness must find the bug with the pattern for it, and must find nothing in the correct toy.

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// toy is one instance of a toy controller. It syncs from its cache every 100 ms.
type toy struct {
	client    kubernetes.Interface
	lister    corelisters.ConfigMapNamespaceLister
	namespace string
	memory    map[string]bool
}

// withoutParent has the number of syncs that the toys of a namespace have done while their cache had no parent.
var withoutParent sync.Map // of *atomic.Int64

func syncsWithoutParent(namespace string) *atomic.Int64 {
	count, _ := withoutParent.LoadOrStore(namespace, new(atomic.Int64))
	return count.(*atomic.Int64)
}

type syncToy func(ctx context.Context, toy *toy, parent *corev1.ConfigMap) error

func TestClassicBugsAreFound(t *testing.T) {
	tests := map[string]struct {
		buggy, correct syncToy
		acts           []Act
		flicker        func(context.Context, *User) error
		invariant      func([]Change) error
		foundBy        string // the pattern
	}{
		"create from a stale cache": {
			buggy: createUnnamed, correct: createNamed,
			acts: []Act{createParent()}, invariant: atMostOneChild, foundBy: "stale configmaps",
		},
		"count after create": {
			buggy: countAfterCreate, correct: countBeforeCreate,
			acts: []Act{createParent()}, foundBy: "crash after",
		},
		"adopt without UID check": {
			buggy: adoptByName, correct: adoptByUID,
			acts: []Act{createParent()}, flicker: recreateParent, invariant: childIsOfParent, foundBy: "unobserved",
		},
		"double effect by a late write": {
			buggy: createUnnamed, correct: createNamed,
			acts: []Act{createParent()}, invariant: atMostOneChild, foundBy: "late write",
		},
		"cleanup forgotten after a crash": {
			buggy: cleanUpFromMemory, correct: cleanUpFromCluster,
			acts: []Act{createParent(), deleteParent()}, foundBy: "crash before",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario := Scenario{
				Name: name, Acts: test.acts, Flicker: test.flicker,
				Resources: []schema.GroupVersionResource{configMaps},
			}
			if test.invariant != nil {
				scenario.Invariants = []Invariant{{Name: name, Check: test.invariant}}
			}
			scenario.Start = startToy(test.correct)
			if found := explore(t, scenario); len(found) > 0 {
				t.Errorf("got findings in the correct toy, want none: %v", found)
			}
			scenario.Start = startToy(test.buggy)
			found := explore(t, scenario)
			if !slices.ContainsFunc(found, func(finding string) bool { return strings.HasPrefix(finding, test.foundBy+" at ") }) {
				t.Errorf("got the findings %q in the toy with the bug, want one of the pattern %q", found, test.foundBy)
			}
		})
	}
}

// explore runs the scenario with every pattern at every point, and returns a finding for each run that failed.
func explore(t *testing.T, scenario Scenario) (findings []string) {
	t.Helper()
	cluster := testcluster.Shared(t)
	undisturbed, err := execute(t, cluster, scenario, Pattern{}, Point{})
	if err != nil {
		t.Fatalf("The undisturbed run failed: %v\n%s", err, undisturbed.history)
	}
	patterns := slices.Concat(standardPatterns(undisturbed.watched), morePatterns(undisturbed.watched, scenario.Flicker != nil))
	for _, pattern := range patterns {
		for _, point := range undisturbed.points {
			if pattern.strike == nil {
				continue
			}
			disturbed, err := execute(t, cluster, scenario, pattern, point)
			if problem := verdict(undisturbed, disturbed, err); disturbed.struck && problem != "" {
				findings = append(findings, fmt.Sprintf("%s at %s: %s", pattern.Name, point, problem))
			}
		}
	}
	return findings
}

func startToy(syncs syncToy) func(context.Context, *rest.Config, string) error {
	return func(ctx context.Context, config *rest.Config, namespace string) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
		defer factory.Shutdown()
		toy := &toy{client: client, namespace: namespace, memory: map[string]bool{}}
		toy.lister = factory.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace)
		factory.StartWithContext(ctx)
		factory.WaitForCacheSyncWithContext(ctx)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			parent, err := toy.lister.Get("parent")
			if apierrors.IsNotFound(err) {
				parent, err = nil, nil
			}
			if err == nil {
				_ = syncs(ctx, toy, parent) // the next tick tries again
				if parent == nil {
					syncsWithoutParent(namespace).Add(1)
				}
			}
		}
	}
}

// children returns the children in the cache.
func (t *toy) children() []*corev1.ConfigMap {
	all, err := t.lister.List(labels.Everything())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *corev1.ConfigMap) bool { return c.Labels["child"] == "" })
}

func (t *toy) create(ctx context.Context, child *corev1.ConfigMap) error {
	child.Labels = map[string]string{"child": "true"}
	_, err := t.client.CoreV1().ConfigMaps(t.namespace).Create(ctx, child, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (t *toy) delete(ctx context.Context, name string) error {
	return t.client.CoreV1().ConfigMaps(t.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (t *toy) count(ctx context.Context, parent *corev1.ConfigMap) error {
	counted := parent.DeepCopy()
	counted.Data = map[string]string{"count": "1"}
	_, err := t.client.CoreV1().ConfigMaps(t.namespace).Update(ctx, counted, metav1.UpdateOptions{})
	return err
}

// createUnnamed trusts a stale cache that has no child, and creates a second one with a generated name.
func createUnnamed(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent == nil || len(t.children()) > 0 {
		return nil
	}
	return t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "child-"}})
}

func createNamed(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent == nil || len(t.children()) > 0 {
		return nil
	}
	return t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
}

// countAfterCreate does not count a child if it is killed between the two writes.
func countAfterCreate(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent == nil || len(t.children()) > 0 {
		return nil
	}
	if err := t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}}); err != nil {
		return err
	}
	return t.count(ctx, parent)
}

func countBeforeCreate(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent == nil || len(t.children()) > 0 {
		return nil
	}
	if parent.Data["count"] == "" {
		if err := t.count(ctx, parent); err != nil {
			return err
		}
	}
	return t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
}

// adoptByName mistakes the child of an earlier parent of the same name for its own.
func adoptByName(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent == nil || len(t.children()) > 0 {
		return nil
	}
	return t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}, Data: map[string]string{"parent": string(parent.UID)}})
}

func adoptByUID(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if children := t.children(); parent != nil && len(children) > 0 && children[0].Data["parent"] != string(parent.UID) {
		return t.delete(ctx, children[0].Name)
	}
	return adoptByName(ctx, t, parent)
}

// cleanUpFromMemory loses the list of what it created in a restart.
func cleanUpFromMemory(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent != nil {
		t.memory["child"] = t.memory["child"] || len(t.children()) == 0
		return createNamed(ctx, t, parent)
	}
	for child := range maps.Keys(t.memory) {
		if err := t.delete(ctx, child); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		delete(t.memory, child)
	}
	return nil
}

func cleanUpFromCluster(ctx context.Context, t *toy, parent *corev1.ConfigMap) error {
	if parent != nil {
		return createNamed(ctx, t, parent)
	}
	for _, child := range t.children() {
		if err := t.delete(ctx, child.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
