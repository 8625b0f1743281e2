// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"strings"
	"testing"

	"golang.org/x/net/http2"
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
		"another":        {s.rawWith(t), 64, 64 << 10, 16 << 10, 128 << 10},
		"another's name": {s.rawWith(t, s.front.Issue(t, "other").TLS), 64, 64 << 10, 16 << 10, 128 << 10},
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

// Without HTTP/2, the headers that kube-apiserver passes on come by HTTP/1, whose limit is the same for all clients.
func TestHeadersWithoutHTTP2(t *testing.T) {
	const flag = "--disable-http2-serving=true"
	start(t, flag).as(t, "farmer").expect(t, 200, "GET", llamas, "", "X-Large", strings.Repeat("x", 500<<10))
}

// Without the authority of front proxies, every client connects directly.
func TestPeersWithoutFrontProxies(t *testing.T) {
	s := start(t)
	connection, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{s.front.Issue(t, "front-proxy").TLS}})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if !isDirect(newPeers(nil).context(t.Context(), connection)) {
		t.Error("a client is taken for kube-apiserver")
	}
}
