// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"millwright.dev/pkg/testing/testca"
)

func TestOnlyTheFrontProxySpeaksForUsers(t *testing.T) {
	s := start(t)
	forged := http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}
	s.client(t, nil, nil).expect(t, 401, "GET", llamas, "")
	s.client(t, nil, forged).expect(t, 401, "GET", llamas, "")

	certificateOf := func(name string, ca *testca.CA) *tls.Certificate { return &ca.Issue(t, name).TLS }
	s.client(t, certificateOf("front-proxy", testca.New(t, "another")), forged).expect(t, 401, "GET", llamas, "")
	s.client(t, certificateOf("other", s.front), forged).expect(t, 401, "GET", llamas, "")
	s.client(t, certificateOf("front-proxy", s.front), http.Header{"X-Remote-User": {"farmer"}}).expect(t, 200, "GET", llamas, "")
	if !slices.Contains(s.reviews(), "farmer list llamas") {
		t.Errorf("reviewed: %q", s.reviews())
	}
}

func TestATokenIsReviewed(t *testing.T) {
	s := start(t)
	s.client(t, nil, http.Header{"Authorization": {"Bearer good"}}).expect(t, 200, "GET", llamas, "")
	s.client(t, nil, http.Header{"Authorization": {"Bearer bad"}}).expect(t, 401, "GET", llamas, "")
}

func TestForbiddenIsReported(t *testing.T) {
	s := start(t)
	s.forbid("thief")
	s.as(t, "thief").expect(t, 403, "POST", llamas, body("dolly", dollySpec))
	s.as(t, "thief").expect(t, 403, "GET", "/metrics", "")
	s.as(t, "farmer").expect(t, 200, "GET", "/metrics", "")
}

func TestEverybodyMayAskWhetherItIsWell(t *testing.T) {
	anonymous := start(t).client(t, nil, nil)
	anonymous.until(t, 200, "/livez")
	anonymous.until(t, 200, "/healthz")
	ready := anonymous.until(t, 200, "/readyz?verbose")
	for _, check := range []string{"certificate-farm", "kube-apiserver", "llama-storage", "informer-sync"} {
		if !slices.Contains(splitLines(ready.body), "[+]"+check+" ok") {
			t.Errorf("%s is not checked:\n%s", check, ready.body)
		}
	}
}

// stream of watch events.
type stream struct{ decoder *json.Decoder }

type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
	object map[string]any
}

func (c *client) watch(t *testing.T, path string) *stream {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header
	response, err := c.http.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("watching %s: %v %v", path, response, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return &stream{json.NewDecoder(response.Body)}
}

func (s *stream) next(t *testing.T) watchEvent {
	t.Helper()
	var event watchEvent
	if err := s.decoder.Decode(&event); err != nil {
		t.Fatalf("waiting for an event: %v", err)
	}
	if err := json.Unmarshal(event.Object, &event.object); err != nil {
		t.Fatal(err)
	}
	return event
}

// ends reports whether the stream ends as it should, without being torn off.
func (s *stream) ends() error {
	var event watchEvent
	if err := s.decoder.Decode(&event); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the watch does not end well"), err)
	}
	return nil
}
