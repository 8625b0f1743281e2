// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

const (
	// watchIdle is how long a watch of a namespace runs without being used.
	watchIdle = 10 * time.Minute
	// maxWatches is how many namespaces a process with the memory limit of the shipped Deployment watches; see [inflight.NewMemoryLimit]. In others, Pods are
	// read.
	maxWatches = 200
)

// watches are the watches of the Pods of phases. Each namespace has its own, so that a Role in the namespace is enough. A watch starts with its
// first use.
type watches struct {
	ctx    context.Context
	client kubernetes.Interface
	// changed is called with a Pod that was added, changed or deleted.
	changed func(*corev1.Pod)
	running sync.WaitGroup

	// limit is that of the watches. The keys are namespaces of ActionSets.
	limit *inflight.Limit[string]

	mu          sync.Mutex
	byNamespace map[string]*namespaceWatch
	stopped     bool // no watch is started any more
}

// namespaceWatch is the watch of one namespace.
type namespaceWatch struct {
	namespace string
	informer  cache.SharedIndexInformer
	// release gives up its place in the limit.
	release func()
	// The following fields are guarded by the mu of the watches.

	used time.Time
	// problem is why there is no watch at the moment.
	problem error
}

// wait returns when the context has ended and no watch runs any more.
func (w *watches) wait() {
	<-w.ctx.Done()
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.running.Wait()
}

// use starts the watch of a namespace for the ActionSets in another one, or keeps it running for another watchIdle. It returns nil if there are too many.
func (w *watches) use(namespace, forNamespace string) *namespaceWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.byNamespace[namespace]
	if watched == nil {
		release, ok := w.limit.TryAcquire(forNamespace)
		if !ok {
			return nil
		}
		watched = &namespaceWatch{namespace: namespace, release: release}
		watched.informer = w.newInformer(watched)
		w.byNamespace[namespace] = watched
		if !w.stopped {
			w.running.Go(func() { w.run(watched) })
		}
	}
	watched.used = time.Now()
	return watched
}

// get returns the Pod in the cache, for an ActionSet in that namespace; nil if there is none. current is false if the cache may be stale for long. It starts
// no watch before the UID of the Pod is recorded, because the namespace may not exist. Creating the Pod does.
func (w *watches) get(intent Intent, forNamespace string) (pod *corev1.Pod, current bool) {
	var watched *namespaceWatch
	if intent.UID != "" {
		watched = w.use(intent.Namespace, forNamespace)
	} else {
		w.mu.Lock()
		watched = w.byNamespace[intent.Namespace]
		w.mu.Unlock()
	}
	if watched == nil {
		return nil, false
	}
	w.mu.Lock()
	current = watched.problem == nil && watched.informer.HasSynced()
	w.mu.Unlock()
	return watched.pod(intent.Pod), current
}

func (w *namespaceWatch) pod(name string) *corev1.Pod {
	object, found, err := w.informer.GetStore().GetByKey(w.namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return object.(*corev1.Pod)
}

// seen returns all Pods of the caches that match the filter. It starts no watch.
func (w *watches) seen(filter func(*corev1.Pod) bool) (pods []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watched := range w.byNamespace {
		for _, object := range watched.informer.GetStore().List() {
			if pod := object.(*corev1.Pod); filter(pod) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// run watches until the context ends, or the watch is not used any more.
func (w *watches) run(watched *namespaceWatch) {
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	w.running.Go(func() { watched.informer.RunWithContext(ctx) })
	for left := watchIdle; left > 0; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
		w.mu.Lock()
		if left = watchIdle - time.Since(watched.used); left <= 0 {
			delete(w.byNamespace, watched.namespace)
			watched.release()
		}
		w.mu.Unlock()
	}
}

func (w *watches) newInformer(watched *namespaceWatch) cache.SharedIndexInformer {
	pods := w.client.CoreV1().Pods(watched.namespace)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = phase.LabelActionSet
			list, err := pods.List(ctx, options)
			w.report(ctx, watched, err, err == nil)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = phase.LabelActionSet
			events, err := pods.Watch(ctx, options)
			w.report(ctx, watched, err, false)
			if err != nil && options.SendInitialEvents != nil {
				// After some of these errors the Reflector would wait without checking the context. With another type of error it lists instead.
				err = errors.New(err.Error())
			}
			return events, err
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, w.client), &corev1.Pod{}, 0, cache.Indexers{})
	// These cannot fail for an informer that has not started.
	_ = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // report has logged it
	_ = informer.SetTransform(trim)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.changed(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { w.changed(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				w.changed(pod)
			}
		},
	})
	return informer
}

// report records the result of a list or a watch, and logs the first failure. A list that succeeds does not prove that watching works.
func (w *watches) report(ctx context.Context, watched *namespaceWatch, err error, listed bool) {
	if listed || ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the Reflector retries immediately
	}
	w.mu.Lock()
	first := err != nil && watched.problem == nil
	watched.problem = err
	w.mu.Unlock()
	if first {
		klog.FromContext(ctx).Info("Failed to watch the Pods of phases, reading them every second instead; the verbs list and watch on pods are needed",
			"namespace", watched.namespace, "err", err)
	}
}
