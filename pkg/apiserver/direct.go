// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"millwright.dev/pkg/addresslimit"
	"millwright.dev/pkg/inflight"
)

const (
	// maxFailures is how often the clients of one address that connect directly may fail in a burst, and failureInterval is the time after which one
	// failure no longer counts.
	maxFailures     = 50
	failureInterval = 200 * time.Millisecond
	// maxRequestsOfAddress and maxDirectRequests are how many requests are served at a time, but for watches. The generic server has 400 places for
	// reads and 200 for writes, most of which stay for kube-apiserver.
	maxRequestsOfAddress = 8
	maxDirectRequests    = 64
	// maxOpenRequests is how many requests to paths that are open to all are in the generic server at a time.
	maxOpenRequests = 32
)

// directClients limits what clients that connect directly cost. kube-apiserver has authenticated, authorized and limited those whose requests it
// passes on.
type directClients struct {
	// open are the paths for which no authorization is needed.
	open     authorizer.Authorizer
	info     request.RequestInfoResolver
	proxies  *frontProxies
	failures *addresslimit.Failures
	requests *inflight.Limit[netip.Addr]
	// openRequests has an element for each request to an open path.
	openRequests chan struct{}
}

// limitDirectClients changes the authentication and the authorization of the generic server.
//
// Clients that connect directly must be known, except on the paths that need no authorization. Their access reviews have a client of their own, so
// that they do not delay those of requests that kube-apiserver passes on.
func limitDirectClients(config *Config, generic *genericapiserver.RecommendedConfig) (*directClients, error) {
	open, err := path.NewAuthorizer(config.Authorization.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("invalid --authorization-always-allow-paths: %w", err)
	}
	d := &directClients{
		open: open, info: genericapiserver.NewRequestInfoResolver(&generic.Config), proxies: newFrontProxies(generic.Authentication.RequestHeaderConfig),
		failures: addresslimit.NewFailures(maxFailures, failureInterval), requests: inflight.NewLimit[netip.Addr](maxRequestsOfAddress, maxDirectRequests),
		openRequests: make(chan struct{}, maxOpenRequests),
	}
	var own genericapiserver.AuthorizationInfo
	if err := config.Authorization.ApplyTo(&own); err != nil {
		return nil, err
	}
	generic.Authentication.Authenticator = d.authenticator(generic.Authentication.Authenticator)
	generic.Authorization.Authorizer = d.authorizer(own.Authorizer, generic.Authorization.Authorizer)
	return d, nil
}

// isOpen reports whether a request needs no authorization. A pattern of paths never opens resources.
func (d *directClients) isOpen(of *http.Request) bool {
	if decision, _, _ := d.open.Authorize(of.Context(), authorizer.AttributesRecord{Path: of.URL.Path}); decision != authorizer.DecisionAllow {
		return false
	}
	info, err := d.info.NewRequestInfo(of)
	return err == nil && !info.IsResourceRequest
}

// handler is for requests of clients that connect directly, and for no others.
func (d *directClients) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if d.isOpen(request) {
			d.serveOpen(next, response, request)
			return
		}
		end, ok := d.requests.TryAcquire(addresslimit.Whole(request.RemoteAddr))
		if !ok {
			refuse(response, tooManyRequests)
			return
		}
		defer end()
		succeeded, ok := d.failures.Begin(addresslimit.Of(request.RemoteAddr), time.Now())
		if !ok {
			// The connection occupies the place of a client that does not fail.
			response.Header().Set("Connection", "close")
			refuse(response, "clients of your address have sent too many requests that are not authenticated or not authorized")
			return
		}
		if d.proxies.has(request.TLS) {
			// kube-apiserver has connected before its authority was known here. It connects again without these limits.
			response.Header().Set("Connection", "close")
		}
		from := &directRequest{succeeded: succeeded, end: end, response: http.NewResponseController(response)}
		defer from.answered()
		next.ServeHTTP(response, request.WithContext(context.WithValue(request.Context(), directKey{}, from)))
	})
}

const tooManyRequests = "your address, or all clients that connect directly, have too many requests at a time"

func refuse(response http.ResponseWriter, why string) {
	response.Header().Set("Retry-After", "1")
	http.Error(response, "Too Many Requests: "+why, http.StatusTooManyRequests)
}

func (d *directClients) authenticator(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		who, known, err := next.AuthenticateRequest(request)
		if known && who.User.GetName() == user.Anonymous && requestOf(request.Context()) != nil {
			return nil, false, err
		}
		return who, known, err
	})
}

// authorizer chooses that of the request.
func (d *directClients) authorizer(own, passedOn authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		from := requestOf(ctx)
		if from == nil {
			return passedOn.Authorize(ctx, attributes)
		}
		decision, reason, err := own.Authorize(ctx, attributes)
		if decision == authorizer.DecisionAllow {
			info, ok := request.RequestInfoFrom(ctx)
			from.allowed(ok && info.Verb == "watch")
		}
		return decision, reason, err
	})
}

type directKey struct{}

// directRequest is a request of a client that connects directly, to a path that needs authorization.
type directRequest struct {
	// succeeded ends its count as a failure, and end its count as a request that is served.
	succeeded, end func()

	mu       sync.Mutex
	response *http.ResponseController // nil when the request has been answered
}

// requestOf returns the request whose context this is, or nil if kube-apiserver has passed it on, or its path is open.
func requestOf(ctx context.Context) *directRequest {
	from, _ := ctx.Value(directKey{}).(*directRequest)
	return from
}

// allowed is called when the request is authorized. A watch lasts until its client ends it.
func (r *directRequest) allowed(isWatch bool) {
	r.succeeded()
	if !isWatch {
		return
	}
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.response != nil {
		_ = r.response.SetWriteDeadline(time.Time{})
	}
}

// answered is called before the response is invalid, which the authorizer of a request that timed out can outlive.
func (r *directRequest) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.response = nil
}
