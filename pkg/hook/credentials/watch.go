// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// How long a watch that failed waits before it is tried again: from retryMin, doubled each time, to retryMax; from retryMin again when
// it has lived for retryReset. Each wait is drawn from the upper half. So long it takes at most until a right that was given shows.
const (
	retryMin   = 500 * time.Millisecond
	retryMax   = 30 * time.Second
	retryReset = 2 * time.Minute
)

// watch watches one object until the context ends.
func (s *Source) watch(ctx context.Context, w *watchedObject) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "kind", w.ref.Kind, "object", klog.KRef(w.ref.Namespace, w.ref.Name))
	ctx = klog.NewContext(ctx, logger)
	var expected runtime.Object = &corev1.Secret{}
	if w.ref.Kind == ConfigMap {
		expected = &corev1.ConfigMap{}
	}
	reflector := cache.NewReflectorWithOptions(s.listWatch(w), expected, &reflectorStore{s, w}, cache.ReflectorOptions{
		Logger: &logger, Name: "credentials", TypeDescription: w.ref.String(),
		Backoff: &wait.Backoff{Duration: retryMin, Factor: 2, Jitter: 1, Steps: 6, Cap: retryMax},
	})
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		// The error was reported where it happened.
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			logger.V(4).Info("The watch has ended, restarting it", "err", err)
		}
		if time.Since(began) >= retryReset {
			delay = retryMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Jitter(delay/2, 1)):
			delay = min(2*delay, retryMax)
		}
	}
}

// listWatch lists and watches one object by its name.
func (s *Source) listWatch(w *watchedObject) cache.ListerWatcher {
	core := s.client.CoreV1()
	var both *cache.ListWatch
	if w.ref.Kind == ConfigMap {
		both = alone(s, w, core.ConfigMaps(w.ref.Namespace).List, core.ConfigMaps(w.ref.Namespace).Watch)
	} else {
		both = alone(s, w, core.Secrets(w.ref.Namespace).List, core.Secrets(w.ref.Namespace).Watch)
	}
	return cache.ToListWatcherWithWatchListSemantics(both, s.client)
}

// alone limits a list and watch to one object, and reports the results to the source.
func alone[L runtime.Object](s *Source, w *watchedObject, list func(context.Context, metav1.ListOptions) (L, error),
	watchAll func(context.Context, metav1.ListOptions) (watch.Interface, error)) *cache.ListWatch {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, w.ref.Name).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			found, err := list(ctx, options)
			if err != nil {
				s.failed(ctx, w, err)
			}
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			events, err := watchAll(ctx, options)
			if err == nil {
				s.resumed(w)
				return events, nil
			}
			s.failed(ctx, w, err)
			if options.SendInitialEvents != nil {
				// After some of these errors the Reflector would wait without checking the context. After this one it lists again.
				err = errors.New(err.Error())
			}
			return nil, err
		},
	}
}

// failed records that the object could not be listed or watched.
func (s *Source) failed(ctx context.Context, w *watchedObject, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // the Reflector lists again
		return
	}
	refused := apierrors.IsForbidden(err)
	s.mu.Lock()
	first := w.problem == nil || refused && !apierrors.IsForbidden(w.problem)
	w.problem = explain(w.ref, err)
	holds := w.listeners(refused && !w.settled)
	w.settled = w.settled || refused
	s.mu.Unlock()
	if first {
		klog.FromContext(ctx).Info("Failed to watch an object that a hook needs, retrying", "err", explain(w.ref, err))
	}
	call(holds)
}

// resumed records that the object is watched.
func (s *Source) resumed(w *watchedObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.problem = nil
}

// learn records the data of the object.
func (s *Source) learn(w *watchedObject, now data) {
	s.mu.Lock()
	changed := !w.known || !w.data.equal(now)
	w.known, w.data, w.settled = true, now, true
	holds := w.listeners(changed)
	s.mu.Unlock()
	call(holds)
}

// listeners returns the holds of the object that have to be notified, if there was a change. The source's mu must be held.
func (w *watchedObject) listeners(tell bool) []*Hold {
	if !tell {
		return nil
	}
	return slices.Collect(maps.Keys(w.holds))
}

func call(holds []*Hold) {
	for _, hold := range holds {
		if !hold.released.Load() {
			hold.onChange()
		}
	}
}

// reflectorStore is where the Reflector puts what it sees of one object.
type reflectorStore struct {
	source  *Source
	watched *watchedObject
}

// Add implements cache.ReflectorStore.
func (r *reflectorStore) Add(object any) error { return r.Update(object) }

// Update implements cache.ReflectorStore.
func (r *reflectorStore) Update(object any) error {
	if now := r.dataOf(object); now.exists {
		r.source.learn(r.watched, now)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (r *reflectorStore) Delete(object any) error {
	if r.dataOf(object).exists {
		r.source.learn(r.watched, data{})
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (r *reflectorStore) Replace(objects []any, _ string) error {
	now := data{}
	for _, object := range objects {
		if found := r.dataOf(object); found.exists {
			now = found
		}
	}
	r.source.learn(r.watched, now)
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to repeat.
func (r *reflectorStore) Resync() error { return nil }

// dataOf returns nothing for an object of another name: fakes ignore field selectors.
func (r *reflectorStore) dataOf(object any) data {
	switch o := object.(type) {
	case *corev1.Secret:
		if o.Name == r.watched.ref.Name {
			return data{exists: true, secret: o.Data}
		}
	case *corev1.ConfigMap:
		if o.Name == r.watched.ref.Name {
			return data{exists: true, configMap: o.Data}
		}
	}
	return data{}
}
