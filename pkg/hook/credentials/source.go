// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/hook"
)

// Source has the Secrets and ConfigMaps that are held. Its methods may be called concurrently.
type Source struct {
	ctx     context.Context
	client  kubernetes.Interface
	running sync.WaitGroup

	mu      sync.Mutex
	watched map[Ref]*watchedObject
	stopped bool // nothing is started any more
}

var _ hook.Source = &Source{}

// New returns a Source that watches by the client what is held, until the context ends. Call Wait after that.
func New(ctx context.Context, client kubernetes.Interface) *Source {
	return &Source{ctx: ctx, client: client, watched: map[Ref]*watchedObject{}}
}

// Wait returns when the context has ended and nothing that was started runs any more.
func (s *Source) Wait() {
	<-s.ctx.Done()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.running.Wait()
}

// watchedObject is one object that is held.
type watchedObject struct {
	ref  Ref
	stop context.CancelFunc

	// What is below is guarded by the source's mu.
	holds map[*Hold]struct{}
	// settled reports whether it is known, or refused.
	settled bool
	// known reports whether the API server has answered; data is the answer.
	known bool
	data  data
	// problem is why it cannot be watched now, nil if it can.
	problem error
}

// data of an object. They are not changed.
type data struct {
	exists    bool
	secret    map[string][]byte
	configMap map[string]string
}

func (d data) equal(other data) bool {
	return d.exists == other.exists && maps.EqualFunc(d.secret, other.secret, bytes.Equal) && maps.Equal(d.configMap, other.configMap)
}

// Hold keeps objects watched.
type Hold struct {
	source   *Source
	onChange func()
	watched  []*watchedObject
	released atomic.Bool
}

// Hold watches the objects until the hold is released. onChange is called when one of them is first known, is created, changed or deleted,
// or is refused; not for objects that are already known, nor for changes of labels and other metadata. It may be called concurrently, and
// must return quickly.
func (s *Source) Hold(onChange func(), refs ...Ref) *Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := &Hold{source: s, onChange: onChange}
	for _, ref := range refs {
		w := s.watched[ref]
		if w == nil {
			w = &watchedObject{ref: ref, holds: map[*Hold]struct{}{}}
			s.watched[ref] = w
			s.start(w)
		}
		w.holds[hold] = struct{}{}
		hold.watched = append(hold.watched, w)
	}
	return hold
}

// start begins a watch. s.mu is held.
func (s *Source) start(w *watchedObject) {
	ctx, stop := context.WithCancel(s.ctx)
	w.stop = stop
	if w.problem = w.ref.invalid(); w.problem != nil {
		w.settled = true
		return
	}
	if !s.stopped {
		s.running.Go(func() { s.watch(ctx, w) })
	}
}

// Release releases the hold. No call to onChange begins after it, but one may still run. It may be called twice.
func (h *Hold) Release() {
	if h.released.Swap(true) {
		return
	}
	h.source.mu.Lock()
	defer h.source.mu.Unlock()
	for _, w := range h.watched {
		delete(w.holds, h)
		if len(w.holds) == 0 && h.source.watched[w.ref] == w {
			w.stop()
			delete(h.source.watched, w.ref)
		}
	}
}

// HasSynced reports whether each object is read, known to be missing, or refused.
func (h *Hold) HasSynced() bool {
	h.source.mu.Lock()
	defer h.source.mu.Unlock()
	return !slices.ContainsFunc(h.watched, func(w *watchedObject) bool { return !w.settled })
}

// Secret returns the data of a Secret that is held. Data that was read is still returned while the Secret cannot be watched any more.
func (s *Source) Secret(namespace, name string) (map[string][]byte, error) {
	found, err := s.read(Ref{Secret, namespace, name})
	return found.secret, err
}

// ConfigMap is like Secret. Binary data are left out.
func (s *Source) ConfigMap(namespace, name string) (map[string]string, error) {
	found, err := s.read(Ref{ConfigMap, namespace, name})
	return found.configMap, err
}

// read returns what is known. The caller names the object in its error.
func (s *Source) read(ref Ref) (data, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[ref]
	switch {
	case w == nil:
		return data{}, errors.New("it is not watched: it is not held")
	case w.known && w.data.exists:
		return w.data, nil
	case w.problem != nil:
		return data{}, w.problem
	case w.known:
		return data{}, errors.New("it does not exist")
	default:
		return data{}, errors.New("it has not been read yet")
	}
}

// explain adds to the error of a list or watch what it means and what can be done about it. The error that it had is within.
func explain(ref Ref, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("no right to watch it: give this account a Role in the namespace %s with the rule {apiGroups: [\"\"], resources: [%q], resourceNames: [%q], verbs: [\"list\", \"watch\"]}: %w",
			ref.Namespace, ref.Kind.resource(), ref.Name, err)
	}
	return fmt.Errorf("it cannot be watched now: %w", err)
}
