// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"millwright.dev/pkg/addresslimit"
)

const (
	// maxFailures is how often the clients of one address that connect directly may fail in a burst, and failureInterval is the time after which one
	// failure no longer counts.
	maxFailures     = 50
	failureInterval = 200 * time.Millisecond
)

// direct limits what clients that connect directly cost. kube-apiserver has authenticated, authorized and limited those whose requests it passes on.
type direct struct {
	// open are the paths for which no authorization is needed.
	open     authorizer.Authorizer
	failures *addresslimit.Failures
}

// limitDirect changes the authentication and the authorization of the generic server.
//
// Clients that connect directly must be known, except on the paths that need no authorization. Their access reviews have a client of their own, so
// that they do not delay those of requests that kube-apiserver passes on.
func limitDirect(config *Config, generic *genericapiserver.RecommendedConfig) (*direct, error) {
	open, err := path.NewAuthorizer(config.Authorization.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("invalid --authorization-always-allow-paths: %w", err)
	}
	d := &direct{open: open, failures: addresslimit.NewFailures(maxFailures, failureInterval)}
	var own genericapiserver.AuthorizationInfo
	if err := config.Authorization.ApplyTo(&own); err != nil {
		return nil, err
	}
	generic.Authentication.Authenticator = d.authenticator(generic.Authentication.Authenticator)
	generic.Authorization.Authorizer = d.authorizer(own.Authorizer, generic.Authorization.Authorizer)
	return d, nil
}

func (d *direct) isOpen(request *http.Request) bool {
	decision, _, _ := d.open.Authorize(request.Context(), authorizer.AttributesRecord{Path: request.URL.Path})
	return decision == authorizer.DecisionAllow
}

func (d *direct) authenticator(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		who, known, err := next.AuthenticateRequest(request)
		if known && who.User.GetName() == user.Anonymous && isDirect(request.Context()) && !d.isOpen(request) {
			return nil, false, err
		}
		return who, known, err
	})
}

// succeededKey is the key of the function in a request's context that ends the count of the request as a failure.
type succeededKey struct{}

// handler refuses requests of an address whose clients fail too often.
func (d *direct) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if !isDirect(request.Context()) || d.isOpen(request) {
			next.ServeHTTP(response, request)
			return
		}
		succeeded, ok := d.failures.Begin(addresslimit.Of(request.RemoteAddr), time.Now())
		if !ok {
			response.Header().Set("Retry-After", "1")
			http.Error(response, "Too Many Requests: clients of your address have sent too many requests that are not authenticated or not authorized", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(response, request.WithContext(context.WithValue(request.Context(), succeededKey{}, succeeded)))
	})
}

// authorizer chooses that of the request, and ends its count as a failure when it is authorized.
func (d *direct) authorizer(own, passedOn authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		if !isDirect(ctx) {
			return passedOn.Authorize(ctx, attributes)
		}
		decision, reason, err := own.Authorize(ctx, attributes)
		if succeeded, ok := ctx.Value(succeededKey{}).(func()); ok && decision == authorizer.DecisionAllow {
			succeeded()
		}
		return decision, reason, err
	})
}
