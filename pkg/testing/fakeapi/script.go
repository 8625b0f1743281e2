// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxRequests within a second are a hot loop.
const maxRequests = 1000

// script is what goes wrong.
type script struct {
	fail map[string][]error
	lose map[string]error
	// failIf is asked before each request is done, loseIf after it.
	failIf, loseIf func(*Request) error
	// calls is held while a function of the test runs.
	calls    sync.Mutex
	second   time.Time // in which inSecond requests were made
	inSecond int
	broken   bool // by a hot loop: every request fails from then on
}

var errBroken = errors.New("this API server has broken down under a hot loop")

// Fail makes the next requests of this verb and resource ("patch pods") fail instead of being done, one for each error. A nil
// error lets one through. Errors that are no Status of the API are those of the connection. A Status arrives without the header
// Retry-After, because client-go would repeat the request itself.
func (s *Server) Fail(request string, errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[request] = slices.Clone(errs)
}

// Pending returns how many errors of Fail are left.
func (s *Server) Pending(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fail[request])
}

// Lose answers the next request of this verb and resource with the error, after it was done.
func (s *Server) Lose(request string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose[request] = err
}

// FailIf makes requests fail instead of being done for which the function returns an error, lists and watches too, but no events.
// Nil ends it. The function may call the server.
func (s *Server) FailIf(fail func(*Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failIf = fail
}

// LoseIf answers requests with the error that the function returns, after they were done; lists, watches and events excepted.
func (s *Server) LoseIf(lose func(*Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseIf = lose
}

// refuse returns the error in whose place a request is not done.
func (s *Server) refuse(r *Request) error {
	s.mu.Lock()
	if r.Verb == "create" {
		r.Name = s.nameFor(r.Object())
	}
	hot, failIf := s.hot(r), s.failIf
	s.mu.Unlock()
	var err error
	switch {
	case hot:
		err = errBroken
	case failIf != nil && r.Resource != Events.GroupVersionResource:
		s.calls.Lock()
		defer s.calls.Unlock()
		err = failIf(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errs := s.fail[r.String()]; err == nil && len(errs) > 0 {
		s.fail[r.String()], err = errs[1:], errs[0]
	}
	if r.Scripted = err; err != nil {
		s.record(r)
	}
	return err
}

// lost returns the error that a request that was done is answered with.
func (s *Server) lost(r *Request) error {
	if r.Verb == "list" || r.Verb == "watch" {
		return nil
	}
	s.mu.Lock()
	loseIf, onWrite, err := s.loseIf, s.onWrite, s.lose[r.String()]
	delete(s.lose, r.String())
	s.mu.Unlock()
	s.calls.Lock()
	defer s.calls.Unlock()
	if onWrite != nil && r.isWrite() && r.Err == nil {
		onWrite(r)
	}
	if loseIf != nil && r.Resource != Events.GroupVersionResource {
		if lost := loseIf(r); lost != nil {
			return lost
		}
	}
	return err
}

// hot reports whether there was a hot loop.
func (s *Server) hot(r *Request) bool {
	if now := time.Now(); now.Sub(s.second) >= time.Second {
		s.second, s.inSecond = now, 0
	}
	if s.inSecond++; s.inSecond > maxRequests && !s.broken {
		s.t.Errorf("a hot loop: %d requests within a second, the last one %s; before it %q", s.inSecond, r, s.lines[max(len(s.lines)-6, 0):])
		s.broken = true
	}
	return s.broken
}

// log is what clients asked for.
type log struct {
	lines, events, watches []string
	describe               func(*Request) string
	onWrite                func(*Request)
}

// Log sets how requests are described in the log, once they are done: "" leaves one out. Without it they are verb, resource and name, and
// the text of a scripted error. Lists, watches and events are never in it.
func (s *Server) Log(describe func(*Request) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.describe = describe
}

// OnWrite sets what is called after each write that was done, before its answer; events excepted. It may read what is stored.
func (s *Server) OnWrite(call func(*Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite = call
}

func (s *Server) record(r *Request) {
	if r.Resource == Events.GroupVersionResource {
		if r.After != nil {
			s.events = append(s.events, describeEvent(r))
		}
		return
	}
	describe := s.describe
	if describe == nil {
		describe = describeRequest
	}
	if line := describe(r); line != "" {
		s.lines = append(s.lines, line)
	}
}

func describeRequest(r *Request) string {
	line := r.String() + " " + r.Name
	if r.Scripted != nil {
		line += ": " + r.Scripted.Error()
	}
	return line
}

// describeEvent returns an event in a line. A patch counts one of before once more.
func describeEvent(r *Request) string {
	event := As[corev1.Event](r.After)
	if r.Verb == "patch" {
		return fmt.Sprintf("event again %q", event.Message)
	}
	return fmt.Sprintf("event %s %s %q", event.Type, event.Reason, event.Message)
}

// Watches returns what was watched since the server was made: resource, namespace and selector.
func (s *Server) Watches() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watches)
}

// TakeLog returns the requests and the events since it was last called.
func (s *Server) TakeLog() (requests, events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, events = s.lines, s.events
	s.lines, s.events = nil, nil
	return requests, events
}
