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

// withQuery returns a context with the query of its request.
func withQuery(ctx context.Context, query string) context.Context {
	return context.WithValue(ctx, queryKey{}, query)
}

// withoutQueryInLogs returns a config whose requests get their query from their context.
func withoutQueryInLogs(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return queryRestorer{next} })
	return config
}

type queryRestorer struct{ next http.RoundTripper }

func (q queryRestorer) RoundTrip(req *http.Request) (*http.Response, error) {
	if query, ok := req.Context().Value(queryKey{}).(string); ok {
		req = req.Clone(req.Context())
		req.URL.RawQuery = query
	}
	return q.next.RoundTrip(req)
}
