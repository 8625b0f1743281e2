// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

const (
	// maxRedirects is how many redirects of one call are followed.
	maxRedirects = 5
	// shownLocation is how many bytes of a Location an error shows.
	shownLocation = 200
)

// redirector follows the redirects that keep a call what it is: the same method, body and credentials (307 and 308), to the scheme,
// host and port of the hook. Any other redirect is an [*Error]. http.Client would make a GET of most of them, to any address, and obey
// what that answers: the hook of one controller could have the engine read what only the engine can reach.
type redirector struct {
	http.RoundTripper
	hook *Hook
}

// RoundTrip implements http.RoundTripper.
func (r redirector) RoundTrip(request *http.Request) (*http.Response, error) {
	for followed := 0; ; followed++ {
		response, err := r.RoundTripper.RoundTrip(request)
		if err != nil || !isRedirect(response) {
			return response, err
		}
		// The connection can be used again once the body is read to its end.
		_, _ = io.CopyN(io.Discard, response.Body, failureBody)
		_ = response.Body.Close()
		next, why := follow(r.hook.url, request.URL, response)
		if why == "" && followed == maxRedirects {
			why = "more redirects than are followed for one call"
		}
		if why != "" {
			e := newError(ReasonStatus, "%s hook %s: redirected by status code %d to %s, which is not followed (%s): only 307 and 308 within the scheme, host and port of the hook are",
				r.hook.phase, r.hook.URL(), response.StatusCode, location(next), why)
			e.StatusCode = response.StatusCode
			return nil, e
		}
		again := request.Clone(request.Context())
		again.URL, again.Host = next, next.Host
		if again.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
		request = again
	}
}

// CloseIdleConnections is what http.Client asks for.
func (r redirector) CloseIdleConnections() {
	if closer, ok := r.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// isRedirect reports whether http.Client would act on an answer. One without a Location is just a failure.
func isRedirect(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return response.Header.Get("Location") != ""
	}
	return false
}

// follow returns where a redirect leads, nil if that cannot be read, and why it is not followed, "" if it is.
func follow(hook, from *url.URL, response *http.Response) (next *url.URL, why string) {
	next, err := from.Parse(response.Header.Get("Location"))
	switch {
	case err != nil:
		return nil, "the Location is no URL"
	case response.StatusCode != http.StatusTemporaryRedirect && response.StatusCode != http.StatusPermanentRedirect:
		return next, "the status code changes the method"
	case next.Scheme != hook.Scheme || next.Opaque != "" || canonicalHost(next) != canonicalHost(hook):
		return next, "the Location is elsewhere"
	case next.User != nil && (hook.User == nil || *next.User != *hook.User):
		return next, "the Location brings credentials of its own"
	}
	return next, ""
}

// location shows a Location without what may be a secret in it.
func location(u *url.URL) string {
	if u == nil {
		return "an invalid Location"
	}
	text := printable(shown(u))
	if len(text) > shownLocation {
		text = strings.ToValidUTF8(text[:shownLocation], "") + "..."
	}
	return text
}
