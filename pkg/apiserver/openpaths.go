// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"net/http"

	"millwright.dev/pkg/addresslimit"
)

const (
	// maxOpenQuery is the maximum length of the query of a path that needs no authorization, in bytes: it becomes part of the answer.
	maxOpenQuery = 1 << 10
	// maxOpenAnswer is the size in bytes from which an answer counts until its client has read it. Those of probes are smaller.
	maxOpenAnswer = 16 << 10
)

// openHeaders are the headers of a request to a path that needs no authorization. With the others, which name a user, it would cost kube-apiserver
// an access review.
var openHeaders = []string{"Accept", "Accept-Encoding", "User-Agent"}

// serveOpen serves a path that needs no authorization to a client that connects directly.
//
// It writes the answer when the request has left the generic server, so that a client that does not read occupies no place of another request.
func (d *directClients) serveOpen(next http.Handler, response http.ResponseWriter, request *http.Request) {
	refusal, code := "", 0
	switch {
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		response.Header().Set("Allow", "GET, HEAD")
		refusal, code = "Method Not Allowed: clients that connect directly may only GET this path", http.StatusMethodNotAllowed
	case len(request.URL.RawQuery) > maxOpenQuery:
		refusal, code = "URI Too Long: the query has more than 1024 bytes", http.StatusRequestURITooLong
	}
	if code != 0 {
		response.Header().Set("Connection", "close")
		http.Error(response, refusal, code)
		return
	}
	answer := d.answerOpen(next, stripped(request))
	if answer.body.Len() > maxOpenAnswer {
		end, ok := d.requests.TryAcquire(addresslimit.Whole(request.RemoteAddr))
		if !ok {
			refuse(response, tooManyRequests)
			return
		}
		defer end()
	}
	maps.Copy(response.Header(), answer.header)
	response.WriteHeader(cmp.Or(answer.code, http.StatusOK))
	_, _ = response.Write(answer.body.Bytes())
}

// stripped returns a request without what would cost a review: headers, and the client certificate.
func stripped(request *http.Request) *http.Request {
	bare := request.Clone(request.Context())
	bare.TLS, bare.Header, bare.Body, bare.ContentLength = nil, http.Header{}, io.NopCloser(&bytes.Buffer{}), 0
	for _, name := range openHeaders {
		if values := request.Header.Values(name); len(values) > 0 {
			bare.Header[name] = values
		}
	}
	return bare
}

// answerOpen waits until few requests to open paths are in the generic server, unless the client has gone.
func (d *directClients) answerOpen(next http.Handler, request *http.Request) *bufferedResponse {
	answer := &bufferedResponse{header: http.Header{}}
	select {
	case d.openRequests <- struct{}{}:
		defer func() { <-d.openRequests }()
		next.ServeHTTP(answer, request)
	case <-request.Context().Done():
	}
	return answer
}

// bufferedResponse keeps an answer. It implements http.ResponseWriter.
type bufferedResponse struct {
	header http.Header
	code   int // 0 if it is not decided
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *bufferedResponse) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *bufferedResponse) WriteHeader(code int) { b.code = cmp.Or(b.code, code) }

// Write implements http.ResponseWriter.
func (b *bufferedResponse) Write(content []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(content)
}
