// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// freezeTime is how long a frozen watch is held back: long enough for a controller to act on what it does not see.
const freezeTime = 700 * time.Millisecond

// Pattern is one way to disturb a controller at a point.
type Pattern struct {
	Name string
	// Resource whose cache is disturbed, for the patterns that disturb one.
	Resource string
	// loseEvents makes every event post fail, during the whole run. Such a pattern has no strike.
	loseEvents bool
	// firstOfAct tries the pattern only at the first write of each act, unless all patterns are tried.
	firstOfAct bool
	// untilTheEnd keeps a late write back until the last act is done, not only its own.
	untilTheEnd bool
	// strike does what is to happen to the write of the point.
	strike func(*strike) (*http.Response, error)
}

// strike is one write at the moment when it is disturbed.
type strike struct {
	proxy *proxy
	req   *http.Request
	call  call
}

// standardPatterns are those that every test run tries. A crash before any other write than the first one of an act leaves what a crash after
// the write before it leaves.
func standardPatterns(watched []string) []Pattern {
	patterns := []Pattern{
		{Name: "crash before", firstOfAct: true, strike: crashBefore},
		{Name: "crash after", strike: crashAfter},
		{Name: "late write", strike: lateWrite},
	}
	for _, resource := range watched {
		patterns = append(patterns, Pattern{Name: "stale " + resource, Resource: resource, strike: freezeWatch})
	}
	return patterns
}

// morePatterns are tried where time allows.
func morePatterns(watched []string, flicker bool) []Pattern {
	patterns := []Pattern{
		{Name: "events lost", loseEvents: true},
		{Name: "very late write", untilTheEnd: true, strike: lateWrite},
	}
	for _, resource := range watched {
		patterns = append(patterns, Pattern{Name: "restart in the past of " + resource, Resource: resource, strike: restartInThePast})
	}
	if flicker {
		patterns = append(patterns, Pattern{Name: "unobserved", strike: unobserved})
	}
	return patterns
}

// crashBefore kills the instance just before its write reaches the API server.
func crashBefore(s *strike) (*http.Response, error) {
	s.proxy.kill()
	return nil, errKilled
}

// crashAfter kills the instance when its write has taken effect, before it gets the answer.
func crashAfter(s *strike) (*http.Response, error) {
	resp, err := s.proxy.forward(s.req, s.call)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	s.proxy.kill()
	return nil, errKilled
}

// lateWrite holds the write back until another instance has done the work, then lets it through.
func lateWrite(s *strike) (*http.Response, error) {
	var body []byte
	if s.req.Body != nil {
		var err error
		if body, err = io.ReadAll(s.req.Body); err != nil {
			return nil, err
		}
	}
	proxy, call, req := s.proxy, s.call, s.req
	proxy.run.releaseLater(func(ctx context.Context) error {
		late := req.Clone(ctx)
		late.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := proxy.next.RoundTrip(late)
		if err != nil {
			return fmt.Errorf("letting the late write through: %w", err)
		}
		proxy.run.history.add("#%d %s %s/%s arrives late: %s", proxy.instance, call.Verb, call.resource(), call.name, http.StatusText(resp.StatusCode))
		proxy.run.history.wrote()
		return resp.Body.Close()
	})
	proxy.kill()
	return nil, errKilled
}

// freezeWatch freezes the watch of a resource while the write goes through.
func freezeWatch(s *strike) (*http.Response, error) {
	s.proxy.freeze(s.proxy.run.pattern.Resource)
	return s.proxy.forward(s.req, s.call)
}

// restartInThePast kills the instance after its write; the cache of the next one is first filled with what was before.
func restartInThePast(s *strike) (*http.Response, error) {
	version, err := s.proxy.run.currentVersion(s.req.Context(), s.proxy.run.pattern.Resource)
	if err != nil {
		return nil, err
	}
	s.proxy.run.nextPast = &past{resource: s.proxy.run.pattern.Resource, resourceVersion: version}
	return crashAfter(s)
}

// unobserved cuts all watches, lets the scenario's flicker come and go, and lets the controller list anew.
func unobserved(s *strike) (*http.Response, error) {
	resp, err := s.proxy.forward(s.req, s.call)
	restore := s.proxy.cutWatches()
	s.proxy.run.flickerNow(restore)
	return resp, err
}
