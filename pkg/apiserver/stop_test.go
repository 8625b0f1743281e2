// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestStoppingServerServesButIsNotReady(t *testing.T) {
	s := start(t, "--shutdown-delay-duration=3s")
	farmer := s.as(t, "farmer")
	farmer.until(t, 200, "/readyz")
	events := farmer.watch(t, llamas+"?watch=1")
	asked := time.Now()
	s.stop()
	farmer.until(t, 500, "/readyz")
	created := farmer.expect(t, 201, "POST", llamas, body("dolly", dollySpec))
	if since := time.Since(asked); since < time.Second && created.header.Get("Connection") != "" {
		t.Errorf("connections are asked to move %s after the end was asked for", since)
	}
	if event := events.next(t); event.Type != "ADDED" {
		t.Errorf("event %v", event)
	}
	farmer.expect(t, 200, "GET", "/livez", "")
	// The watch ends well, and not before it must.
	if err := events.ends(); err != nil {
		t.Error(err)
	}
	if since := time.Since(asked); since < 3*time.Second {
		t.Errorf("the watch ended after %s", since)
	}
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			t.Errorf("error %v", err)
		}
	case <-time.After(3 * time.Minute):
		t.Error("the server does not end")
	}
}

func TestConnectionsMoveDuringShutdownDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		move, ended := newMover(), make(chan struct{})
		go move.after(ctx, 10*time.Second, ended)
		handler := move.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		asked := func() bool {
			synctest.Wait()
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			return answer.Header().Get("Connection") == "close"
		}
		if asked() {
			t.Error("clients are asked to move before the server is asked to end")
		}
		cancel()
		time.Sleep(4 * time.Second)
		if asked() {
			t.Error("it asks before half of the delay is over")
		}
		time.Sleep(time.Second)
		if !asked() {
			t.Error("it does not ask when half of the delay is over")
		}
	})
}

func TestNoWaitForAServerThatHasNotStarted(t *testing.T) {
	s, config := prepare(t, "--serving-secret=default/farm-operator-serving")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !s.isWatched(secretPath) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if err := Run(ctx, config); err != nil {
		t.Errorf("a start that was called off is an error: %v", err)
	}
}
