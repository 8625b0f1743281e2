// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = time.Minute

// server answers after a delay, or when the request is cancelled, by an error.
type server struct {
	answers time.Duration
	body    io.ReadCloser
}

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.answers):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if b, ok := s.body.(*slowBody); ok {
		b.ctx = req.Context()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: s.body}, nil
}

// slowBody has a number of bytes, each of which comes after a pause.
type slowBody struct {
	ctx   context.Context
	bytes int
	pause time.Duration
}

func (b *slowBody) Read(buffer []byte) (int, error) {
	if b.bytes == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
		b.bytes--
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (*slowBody) Close() error { return nil }

const never = 1000 * time.Hour

func TestARequestEndsWhereNothingComesForTooLong(t *testing.T) {
	for name, tc := range map[string]struct {
		target  string
		upgrade bool
		server  server
		want    string        // "" for a whole answer
		took    time.Duration // until the end of the answer, or the error
	}{
		"no answer":                            {server: server{answers: never}, want: "no answer within 1m0s", took: limit},
		"an answer in time":                    {server: server{answers: 59 * time.Second, body: &slowBody{}}, took: 59 * time.Second},
		"an answer that stops":                 {server: server{body: &slowBody{bytes: 1, pause: never}}, want: "did not go on within 1m0s", took: limit},
		"a large answer that makes progress":   {server: server{body: &slowBody{bytes: 100, pause: 59 * time.Second}}, took: 5900 * time.Second},
		"a watch that is accepted and no more": {target: "?watch=true&timeoutSeconds=300", server: server{answers: never}, want: "no answer within 1m0s", took: limit},
		"a watch that is silent and ends": {
			target: "?watch=true&timeoutSeconds=300", server: server{body: &slowBody{bytes: 1, pause: 300 * time.Second}}, took: 300 * time.Second},
		"a watch that outlasts its own timeout": {
			target: "?watch=1&timeoutSeconds=300", server: server{body: &slowBody{bytes: 1, pause: never}},
			want: "the watch did not end within 6m0s", took: 6 * time.Minute},
		"a watch without a timeout": {target: "?watch=true", server: server{body: &slowBody{bytes: 1, pause: 24 * time.Hour}}, took: 24 * time.Hour},
		"not a watch":               {target: "?watch=false", server: server{body: &slowBody{bytes: 1, pause: never}}, want: "did not go on", took: limit},
		"a log that is followed": {
			target: "/log?follow=true", server: server{answers: 24 * time.Hour, body: &slowBody{bytes: 1, pause: 24 * time.Hour}}, took: 48 * time.Hour},
		"a log that is not followed": {target: "/log", server: server{answers: never}, want: "no answer", took: limit},
		"a command in a container":   {target: "/exec", upgrade: true, server: server{answers: 24 * time.Hour, body: &slowBody{}}, took: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &http.Client{Transport: &transport{next: tc.server, limit: limit}}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods"+tc.target, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tc.upgrade {
					req.Header.Set("Upgrade", "SPDY/3.1")
				}
				begin := time.Now()
				resp, err := client.Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				if took := time.Since(begin); took != tc.took {
					t.Errorf("it ended after %s, want %s", took, tc.took)
				}
				switch {
				case tc.want == "" && err != nil:
					t.Errorf("got error %v", err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got error %v, want %q", err, tc.want)
				case tc.want != "":
					var timeout net.Error
					if !errors.As(err, &timeout) || !timeout.Timeout() {
						t.Errorf("%v is not a timeout", err)
					}
				}
			})
		})
	}
}

func TestTheTimeOfTheReaderDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &transport{next: server{body: &slowBody{bytes: 3, pause: time.Second}}, limit: limit}}
		resp, err := client.Get("https://server/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buffer := make([]byte, 1)
		for range 3 {
			time.Sleep(10 * limit)
			if _, err := resp.Body.Read(buffer); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTheCallersOwnDeadlineIsReportedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&transport{next: server{answers: never}, limit: limit}).RoundTrip(req)
		if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*Error)) {
			t.Errorf("got error %v, want that of the context", err)
		}
	})
}

// A listener of a real server, which accepts and reads, and does not answer.
func TestAClientOfAServerThatHangsReturns(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	hanging := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if strings.HasSuffix(req.URL.Path, "/half") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"Pod"`)
			w.(http.Flusher).Flush()
		}
		<-release
	})}
	go func() { _ = hanging.Serve(listener) }()
	t.Cleanup(func() { close(release); _ = hanging.Close() })

	config := &rest.Config{Host: "http://" + listener.Addr().String()}
	Wrap(config, 100*time.Millisecond)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	for name, request := range map[string]func() error{
		"get":  func() error { _, err := pods.Get(t.Context(), "x", metav1.GetOptions{}); return err },
		"half": func() error { _, err := pods.Get(t.Context(), "half", metav1.GetOptions{}); return err },
		"list": func() error { _, err := pods.List(t.Context(), metav1.ListOptions{}); return err },
		"create": func() error {
			_, err := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
			return err
		},
		"discovery": func() error { _, err := client.Discovery().ServerGroupsWithContext(t.Context()); return err },
	} {
		if err := request(); !errors.As(err, new(*Error)) {
			t.Errorf("%s: got error %v, want one of this package", name, err)
		}
	}
}
