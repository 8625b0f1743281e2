// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"millwright.dev/pkg/testing/testca"
)

// kube-apiserver sends the requests of many clients over one connection. A client that the server does not know has little room.
func TestLimitsOfConnections(t *testing.T) {
	s := start(t)
	for name, test := range map[string]struct {
		client          *raw
		streams, buffer uint32
		frame, headers  uint32
	}{
		"kube-apiserver": {s.raw(t), 1000, 256 << 10, 256 << 10, 1 << 20},
		"another":        {s.rawWith(t), 8, 32 << 10, 16 << 10, 16 << 10},
		"another's name": {s.rawWith(t, s.front.Issue(t, "other").TLS), 8, 32 << 10, 16 << 10, 16 << 10},
	} {
		settings := await[*http2.SettingsFrame](t, test.client)
		for _, setting := range []struct {
			id    http2.SettingID
			limit uint32
		}{
			{http2.SettingMaxConcurrentStreams, test.streams}, {http2.SettingInitialWindowSize, test.buffer}, {http2.SettingMaxFrameSize, test.frame},
			{http2.SettingMaxHeaderListSize, test.headers + 320}, // the overhead of ten fields, which HTTP/2 counts
		} {
			if got, _ := settings.Value(setting.id); got != setting.limit {
				t.Errorf("%s: %s is %d, want %d", name, setting.id, got, setting.limit)
			}
		}
	}
}

// The number of streams is a flag: 0 is the default of Go, and a large one does not exceed what HTTP/2 can announce.
func TestLimitsOfManyStreams(t *testing.T) {
	for flag, want := range map[string]uint32{"0": 250, "8192": 8192} {
		s := start(t, "--http2-max-streams-per-connection="+flag)
		proxy := s.raw(t)
		settings := await[*http2.SettingsFrame](t, proxy)
		if got, _ := settings.Value(http2.SettingMaxConcurrentStreams); got != want {
			t.Errorf("streams of kube-apiserver with %s: got %d, want %d", flag, got, want)
		}
		settings = await[*http2.SettingsFrame](t, s.rawWith(t))
		if got, _ := settings.Value(http2.SettingMaxConcurrentStreams); got != 8 {
			t.Errorf("streams of another with %s: got %d, want 8", flag, got)
		}
		if window := await[*http2.WindowUpdateFrame](t, proxy); window.Increment < 50<<20 {
			t.Errorf("window of the connection with %s: got %d bytes, want at least 50 MiB", flag, window.Increment)
		}
	}
}

// kube-apiserver passes on large headers by HTTP/1 too, for example those of a websocket. Clients that connect directly may not send them.
func TestHeadersByHTTP1(t *testing.T) {
	s := start(t, "--disable-http2-serving=true")
	large := strings.Repeat("x", 500<<10)
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "", "X-Large", large)
	s.client(t, nil, nil).expect(t, 431, "GET", "/livez", "", "X-Large", large)
}

// Without the authority of front proxies, every client connects directly.
func TestNoFrontProxies(t *testing.T) {
	certificate, err := x509.ParseCertificate(testca.New(t, "front").Issue(t, "front-proxy").TLS.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if newFrontProxies(nil).has(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}) {
		t.Error("a client is taken for kube-apiserver")
	}
}
