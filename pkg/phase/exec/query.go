// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
)

// The command is in the query of a URL, and client-go logs URLs at -v=6, so passwords would be logged. The wrapper of client-go that logs is
// outside of those of a rest.Config. So the request passes it without the query, and an inner wrapper restores the query.

type queryKey struct{}

// query is that of one request. It is forgotten when a stream is open, which may be for hours.
type query struct{ text string }

// withQuery returns a context with the query of its request.
func withQuery(ctx context.Context, text string) context.Context {
	return context.WithValue(ctx, queryKey{}, &query{text})
}

// withoutQueryInLogs returns a config whose requests get their query from their context.
func withoutQueryInLogs(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return queryRestorer{next} })
	return config
}

type queryRestorer struct{ next http.RoundTripper }

func (r queryRestorer) RoundTrip(req *http.Request) (*http.Response, error) {
	of, ok := req.Context().Value(queryKey{}).(*query)
	if !ok {
		return r.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.URL.RawQuery = of.text
	resp, err := r.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		of.text = ""
	}
	return resp, err
}
