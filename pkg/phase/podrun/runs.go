// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"io"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
)

// cancelledFor is how long a cancelled phase is remembered: longer than the controller waits for it to stop.
const cancelledFor = 10 * time.Minute

// Runs is what this process knows of the Pods of phases: the caches of the watches, and what was read of their logs. Another process can
// observe all of it again.
type Runs struct {
	ctx            context.Context
	client         kubernetes.Interface
	serviceAccount string
	reach          phase.Reach
	wake           func(phase.ID)
	watches        *watches
	logLimits      logLimits
	running        sync.WaitGroup

	mu        sync.Mutex
	byID      map[phase.ID]*podRun
	cancelled map[phase.ID]time.Time
	deleted   map[types.UID]time.Time
	creates   map[phase.ID]created
	stopped   bool // no log is read any more
}

// podRun is one Pod that was released.
type podRun struct {
	uid types.UID
	// The following fields are guarded by the mu of the Runs.

	// released: this process has removed its scheduling gate, although a stale cache may show it.
	released bool
	// ended is the trimmed Pod in its last state. It may be deleted before its log is read.
	ended *corev1.Pod
	// log of the main container; nil before it has begun.
	log *logReader
}

// created is what this process knows of the creation of the Pod of a phase.
type created struct {
	at time.Time
	// refused: each try was refused. Else the Pod may exist.
	refused bool
}

// New returns Runs whose watches and readers of logs end with the context.
func New(ctx context.Context, env phase.Environment) *Runs {
	r := &Runs{
		logLimits: newLogLimits(),
		ctx:       ctx, client: env.Client, serviceAccount: env.ServiceAccount, reach: env.Reach, wake: env.Wake,
		byID: map[phase.ID]*podRun{}, cancelled: map[phase.ID]time.Time{}, deleted: map[types.UID]time.Time{},
		creates: map[phase.ID]created{},
	}
	r.watches = &watches{
		ctx: ctx, client: env.Client, limit: inflight.NewMemoryLimit[string](maxWatches), byNamespace: map[string]*namespaceWatch{},
		changed: func(pod *corev1.Pod) {
			if id, ok := idOf(pod); ok {
				r.wake(id)
			}
		},
	}
	return r
}

// Wait returns when the context has ended and nothing runs any more.
func (r *Runs) Wait() {
	r.watches.wait()
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.running.Wait()
}

// run returns the run of a phase for the Pod with this UID.
func (r *Runs) run(id phase.ID, uid types.UID) *podRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.byID[id]
	if run == nil || run.uid != uid {
		if run != nil && run.log != nil {
			run.log.cancel()
		}
		run = &podRun{uid: uid}
		r.byID[id] = run
	}
	return run
}

// release remembers that this process has released the Pod.
func (r *Runs) release(run *podRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run.released = true
}

// held reports whether the Pod has not been released.
func (r *Runs) held(run *podRun, pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return gated(pod) && !run.released
}

// endedPod returns the Pod as it was when it had ended; nil if its end was not observed.
func (r *Runs) endedPod(run *podRun) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return run.ended
}

// logOf returns the log of the main container of the Pod, which is followed as soon as the container has begun; nil before.
func (r *Runs) logOf(run *podRun, id phase.ID, pod *corev1.Pod, container string) *logReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hasEnded(pod) && run.ended == nil {
		run.ended = trimmed(pod)
	}
	if run.log == nil && containerBegan(pod, container) && !r.stopped && r.byID[id] == run {
		ctx, cancel := context.WithCancel(r.ctx)
		log := newLogReader(ctx, id.Namespace, r.logLimits, r.opener(pod.Namespace, pod.Name, container))
		log.cancel, log.changed = cancel, func() { r.wake(id) }
		run.log = log
		r.running.Go(func() {
			defer cancel()
			if log.run(ctx) {
				r.wake(id)
			}
			<-ctx.Done() // until then the outputs are in memory
			log.forget()
		})
	}
	if run.log != nil && containerEnded(pod, container) {
		run.log.end()
	}
	if run.log != nil && hasEnded(pod) {
		run.log.endPod()
	}
	return run.log
}

func (r *Runs) opener(namespace, name, container string) func(context.Context, bool) (io.ReadCloser, error) {
	return func(ctx context.Context, follow bool) (io.ReadCloser, error) {
		return r.client.CoreV1().Pods(namespace).GetLogs(name, logOptions(container, follow)).Stream(ctx)
	}
}

// stop forgets the run of a cancelled phase. first is false if the phase was cancelled before.
func (r *Runs) stop(id phase.ID) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.byID[id]; run != nil && run.log != nil {
		run.log.cancel()
	}
	delete(r.byID, id)
	if !r.creates[id].refused {
		delete(r.creates, id) // only that all tries were refused is needed later
	}
	for other, at := range r.cancelled {
		if time.Since(at) > cancelledFor {
			delete(r.cancelled, other)
		}
	}
	_, known := r.cancelled[id]
	r.cancelled[id] = time.Now()
	return !known
}

// isCancelled reports whether this process has cancelled the phase.
func (r *Runs) isCancelled(id phase.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, cancelled := r.cancelled[id]
	return cancelled
}

// isDeleted reports whether this process has deleted the Pod, which a cache may show for some time.
func (r *Runs) isDeleted(pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, deleted := r.deleted[pod]
	return deleted
}

func (r *Runs) noteDeleted(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.deleted, func(_ types.UID, at time.Time) bool { return time.Since(at) > cancelledFor })
	r.deleted[pod] = time.Now()
}

// noteCreate remembers whether the creation of the Pod of a phase was refused.
func (r *Runs) noteCreate(id phase.ID, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.creates, func(_ phase.ID, c created) bool { return time.Since(c.at) > cancelledFor })
	before, again := r.creates[id]
	r.creates[id] = created{at: time.Now(), refused: refused && (!again || before.refused)}
}

// wasRefused reports whether each try of this process to create the Pod of a phase was refused, and there was one.
func (r *Runs) wasRefused(id phase.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.creates[id].refused
}
