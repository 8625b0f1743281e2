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

// freezeTime is how long a watch stays frozen: long enough for a controller to act on its stale cache.
const freezeTime = 700 * time.Millisecond

// Pattern is a way to disturb a controller at a point.
type Pattern struct {
	Name string
	// Resource is the one whose cache is disturbed; "" for a pattern that disturbs no cache.
	Resource string
	// loseEvents makes every write of an event fail, during the whole run. Such a pattern has no strike.
	loseEvents bool
	// firstOfAct tries the pattern only at the first write of each act, unless all patterns are tried.
	firstOfAct bool
	// turn and turns select the points at which the pattern is tried, unless all patterns are tried: see [Pattern.inTurn].
	turn, turns int
	// untilTheEnd holds back a late write until the last act is done, not only its own.
	untilTheEnd bool
	// strike handles the write of the point in place of the proxy.
	strike func(*strike) (*http.Response, error)
}

// strike is a write that is disturbed.
type strike struct {
	proxy *proxy
	req   *http.Request
	call  call
}

// standardPatterns returns the patterns that every test run tries. A crash before any other write than the first one of an act leaves the
// same state as a crash after the write before it. What must refuse a late write, a resourceVersion, a UID or a name, is the same for all writes of
// an act. The caches become stale in turn, one at each point.
func standardPatterns(watched []string) []Pattern {
	patterns := []Pattern{
		{Name: "crash before", firstOfAct: true, strike: crashBefore},
		{Name: "crash after", strike: crashAfter},
		{Name: "late write", firstOfAct: true, strike: lateWrite},
	}
	for i, resource := range watched {
		patterns = append(patterns, Pattern{Name: "stale " + resource, Resource: resource, turn: i, turns: len(watched), strike: freezeWatch})
	}
	return patterns
}

// shortPatterns returns the patterns that a test run with -short tries.
func shortPatterns() []Pattern { return []Pattern{{Name: "crash after", strike: crashAfter}} }

// inTurn returns the points whose turn it is: of three patterns that take turns, the first has the first point, the fourth and so on. If there
// are fewer points than patterns, several patterns have the same point.
func (p Pattern) inTurn(points []Point) []Point {
	if p.turns == 0 {
		return points
	}
	var mine []Point
	for i, point := range points {
		if i%p.turns == p.turn || p.turn%len(points) == i && len(points) < p.turns {
			mine = append(mine, point)
		}
	}
	return mine
}

// morePatterns returns the patterns that are tried if AllPatternsVariable is set.
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

// crashAfter kills the instance after its write has taken effect and before it gets the answer.
func crashAfter(s *strike) (*http.Response, error) {
	resp, err := s.proxy.forward(s.req, s.call)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	s.proxy.kill()
	return nil, errKilled
}

// lateWrite holds back the write until another instance has done the work, then sends it.
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
			return fmt.Errorf("sending the late write: %w", err)
		}
		proxy.run.history.add("#%d %s %s/%s arrives late: %s", proxy.instance, call.Verb, call.resource(), call.name, http.StatusText(resp.StatusCode))
		proxy.run.history.wrote()
		return resp.Body.Close()
	})
	proxy.kill()
	return nil, errKilled
}

// freezeWatch freezes the watch of a resource while the write is sent.
func freezeWatch(s *strike) (*http.Response, error) {
	s.proxy.freeze(s.proxy.run.pattern.Resource)
	return s.proxy.forward(s.req, s.call)
}

// restartInThePast kills the instance after its write. The cache of the next instance is first filled with the state before the write.
func restartInThePast(s *strike) (*http.Response, error) {
	version, err := s.proxy.run.currentVersion(s.req.Context(), s.proxy.run.pattern.Resource)
	if err != nil {
		return nil, err
	}
	s.proxy.run.nextPast = &past{resource: s.proxy.run.pattern.Resource, resourceVersion: version}
	return crashAfter(s)
}

// unobserved sends the write, cuts all watches and requests the scenario's flicker. The controller lists again after the flicker.
func unobserved(s *strike) (*http.Response, error) {
	resp, err := s.proxy.forward(s.req, s.call)
	restore := s.proxy.cutWatches()
	s.proxy.run.flickerNow(restore)
	return resp, err
}
