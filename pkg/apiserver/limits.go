// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"math"
	"net/http"
	"time"
)

const (
	// idleTimeout is that of client-go: neither side closes first.
	idleTimeout = 90 * time.Second
	// readHeaderTimeout keeps slow clients from occupying the server.
	readHeaderTimeout = 10 * time.Second
	// directTimeout is how long a client that connects directly may take to send a request, and then to read the answer, but for a watch.
	directTimeout = 30 * time.Second
)

// limits are what a connection may make the server buffer, in bytes but for streams: for each stream of HTTP/2 the upload buffer while its request is
// answered, for each stream its header, and for the connection one frame.
type limits struct {
	streams, uploadBuffer, frame, header int
	// timeout is for a request and for its answer; 0 if they have none.
	timeout time.Duration
}

// proxyLimits are for kube-apiserver, which sends the requests of many clients over one connection. The buffer holds nearly every object in one frame.
// The header is what kube-apiserver takes, and so may pass on. It has applied the timeouts of requests. 0 streams are the default of Go.
func proxyLimits(streams int) limits {
	return limits{streams: cmp.Or(streams, 250), uploadBuffer: 256 << 10, frame: 256 << 10, header: 1 << 20}
}

// directLimits are for clients that connect directly. The server does not know them before their first request, and most it never knows. In memory, a
// header of many short fields has several times its size.
func directLimits(timeout time.Duration) limits {
	return limits{streams: 8, uploadBuffer: 32 << 10, frame: 16 << 10, header: 16 << 10, timeout: timeout}
}

// server returns a server that has these limits, and the timeouts of all.
func (l limits) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, IdleTimeout: idleTimeout, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: l.timeout, WriteTimeout: l.timeout,
		MaxHeaderBytes: l.header,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: l.streams, MaxReadFrameSize: l.frame, MaxReceiveBufferPerStream: l.uploadBuffer,
			MaxReceiveBufferPerConnection: min(l.uploadBuffer*l.streams, math.MaxInt32), // RFC 9113, 6.9.1
			// WriteTimeout is for what a client allows to be sent, and this for what it has allowed but does not read.
			WriteByteTimeout: l.timeout,
		},
	}
}
