// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/fakeapi"
)

// simulation is the whole controller in a world where everything fails that can: several instances that all believe that they
// lead, caches that are stale, also at their start, requests that are slow or lost, or arrive long after the process that sent
// them has died. What happens next is drawn from a seed; time is virtual.
type simulation struct {
	*apiServer
	random    *rand.Rand
	instances []*instance
	born      int
	late      []*fakeapi.Request // requests that are still under way, and that no client waits for

	mu      sync.Mutex
	pending []*request
	steps   []string
}

// instance is a controller process. Its caches move when the simulation moves them.
type instance struct {
	name       string
	controller *Controller
	position   map[string]int // in the history, of each cache
	busy       map[cache.ObjectName]bool
	// due is when a Machine that is queued is synced.
	due  map[string]time.Time
	dead bool
}

// queue Machines to be synced now.
func (i *instance) queue(names ...string) {
	for _, name := range names {
		i.due[name] = time.Now()
	}
}

// isDue reports whether the Machine is to be synced.
func (i *instance) isDue(name string) bool {
	due, queued := i.due[name]
	return queued && !time.Now().Before(due)
}

// request waits for the simulation to answer it.
type request struct {
	*fakeapi.Request
	from   *instance
	answer chan answer
}

type answer struct {
	response *http.Response
	err      error
}

var errNoAnswer = errors.New("connection reset")

func (s *simulation) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// start an instance, whose caches begin at some point of the past.
func (s *simulation) start() {
	s.born++
	i := &instance{name: fmt.Sprint("instance ", s.born), position: map[string]int{}, busy: map[cache.ObjectName]bool{}, due: map[string]time.Time{}}
	i.controller = newControllerWithCaches(nil, &record.FakeRecorder{})
	i.controller.client = s.client(func(sent *fakeapi.Request) (*http.Response, error) {
		r := &request{Request: sent, from: i, answer: make(chan answer)}
		s.mu.Lock()
		if i.dead {
			s.mu.Unlock()
			return nil, errNoAnswer
		}
		s.pending = append(s.pending, r)
		s.mu.Unlock()
		a := <-r.answer
		return a.response, a.err
	})
	for resource, indexer := range i.caches() {
		history := s.History()
		to := max(len(history)-s.random.IntN(40), 0)
		present := map[string]any{}
		for _, c := range history[:to] {
			if c.Resource.Resource != resource {
				continue
			}
			if present[c.Object.GetName()] = typed(c); c.Deleted {
				delete(present, c.Object.GetName())
			}
		}
		objects := slices.Collect(maps.Values(present))
		version := "1000"
		if to > 0 {
			version = history[to-1].Object.GetResourceVersion()
		}
		for _, object := range objects {
			i.queue(i.controller.observe(s.t, object, false)...)
		}
		_ = indexer.Replace(objects, version)
		i.position[resource] = to
	}
	s.instances = append(s.instances, i)
	s.note("%s starts at %v", i.name, i.position)
}

func (i *instance) caches() map[string]cache.Indexer {
	return map[string]cache.Indexer{"machines": i.controller.machines, "switches": i.controller.switches}
}

// observe shows an instance the next changes of a resource.
func (s *simulation) observe(i *instance, resource string, changes int) {
	history := s.History()
	for ; changes > 0 && i.position[resource] < len(history); i.position[resource]++ {
		c := history[i.position[resource]]
		if c.Resource.Resource != resource {
			continue
		}
		changes--
		names := i.controller.observe(s.t, typed(c), c.Deleted)
		s.mu.Lock()
		i.queue(names...)
		s.mu.Unlock()
	}
}

// typed returns the object as a cache has it.
func typed(c fakeapi.Change) any {
	if c.Resource == machines.GroupVersionResource {
		return fakeapi.As[v1alpha1.Machine](c.Object)
	}
	return fakeapi.As[v1alpha1.Switch](c.Object)
}

// sync begins a sync, which goes on until its first request.
func (s *simulation) sync(i *instance, name string) {
	key := cache.NewObjectName("default", name)
	s.mu.Lock()
	busy := i.busy[key]
	i.busy[key] = true
	if !busy {
		delete(i.due, name)
	}
	s.mu.Unlock()
	if busy {
		return
	}
	ctx := klog.NewContext(s.t.Context(), ktesting.NewLogger(s.t, ktesting.NewConfig(ktesting.Verbosity(0))))
	go func() {
		after, err := i.controller.syncHandler(ctx, key)
		s.mu.Lock()
		i.busy[key] = false
		if err != nil {
			after = time.Second
		}
		if due, queued := i.due[name]; after > 0 && (!queued || due.After(time.Now().Add(after))) {
			i.due[name] = time.Now().Add(after)
		}
		s.mu.Unlock()
		s.note("%s: sync of %s ends: %v", i.name, name, err)
	}()
}

func (s *simulation) isDue(i *instance, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return i.isDue(name)
}

// take takes a request off those that wait, in an order that does not depend on the goroutines.
func (s *simulation) take() *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return nil
	}
	slices.SortFunc(s.pending, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.from.name, b.from.name), cmp.Compare(requestText(a.Request), requestText(b.Request)))
	})
	n := s.random.IntN(len(s.pending))
	r := s.pending[n]
	s.pending = slices.Delete(s.pending, n, n+1)
	return r
}

// carry out a request, and answer it.
func (s *simulation) carry(r *request) {
	response, err := s.Do(r.Request)
	s.note("%s: %s: %v", r.from.name, requestText(r.Request), r.Err)
	r.answer <- answer{response, err}
}

// kill an instance, and start another one. What it has sent may arrive yet.
func (s *simulation) kill(n int) {
	i := s.instances[n]
	s.instances = slices.Delete(s.instances, n, n+1)
	s.note("%s is killed", i.name)
	s.mu.Lock()
	i.dead = true
	var mine []*request
	s.pending = slices.DeleteFunc(s.pending, func(r *request) bool {
		if r.from == i {
			mine = append(mine, r)
		}
		return r.from == i
	})
	s.mu.Unlock()
	for _, r := range mine {
		if s.random.IntN(2) == 0 {
			s.late = append(s.late, r.Request)
		}
		r.answer <- answer{err: errNoAnswer}
	}
}

func (s *simulation) arriveLate() {
	if len(s.late) == 0 {
		return
	}
	n := s.random.IntN(len(s.late))
	_, _ = s.Do(s.late[n])
	s.note("late: %s: %v", requestText(s.late[n]), s.late[n].Err)
	s.late = slices.Delete(s.late, n, n+1)
}

// disturb is one step of the simulation.
func (s *simulation) disturb() {
	n := s.random.IntN(len(s.instances))
	i := s.instances[n]
	machine := []string{"m", "n"}[s.random.IntN(2)]
	resource := []string{"machines", "switches"}[s.random.IntN(2)]
	switch draw := s.random.IntN(100); {
	case draw < 28:
		s.sync(i, machine)
	case draw < 52:
		s.observe(i, resource, 1+s.random.IntN(5))
	case draw < 80:
		if r := s.take(); r != nil {
			s.carry(r)
		}
	case draw < 82:
		if r := s.take(); r != nil { // its answer is lost
			_, _ = s.Do(r.Request)
			s.note("%s: %s: %v, but the answer is lost", r.from.name, requestText(r.Request), r.Err)
			r.answer <- answer{err: errNoAnswer}
		}
	case draw < 84:
		if r := s.take(); r != nil { // it is given up, and may arrive yet
			if s.random.IntN(3) > 0 {
				s.late = append(s.late, r.Request)
			}
			s.note("%s: %s is given up", r.from.name, requestText(r.Request))
			r.answer <- answer{err: errNoAnswer}
		}
	case draw < 86:
		s.arriveLate()
	case draw < 87:
		s.kill(n)
		s.start()
	case draw < 95:
		time.Sleep(time.Duration(s.random.IntN(2000)) * time.Millisecond)
	default:
		s.use()
	}
}

// calm ends all disturbances but the requests that are late, and gives the last instance time to come to rest. It syncs what events and delays
// have queued, and nothing else.
func (s *simulation) calm() {
	for len(s.instances) > 1 {
		s.kill(0)
	}
	i := s.instances[0]
	for range 1200 {
		synctest.Wait()
		for _, resource := range []string{"machines", "switches"} {
			s.observe(i, resource, len(s.History()))
		}
		if r := s.take(); r != nil {
			s.carry(r)
			continue
		}
		if s.random.IntN(20) == 0 {
			s.arriveLate()
		}
		for _, name := range []string{"m", "n"} {
			if s.isDue(i, name) {
				s.sync(i, name)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	synctest.Wait()
}
