// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/x509"
)

// frontProxies recognizes kube-apiserver, which passes on the requests of many clients, by its certificate of a front proxy. Other peers connect
// directly: Prometheus, probes, and everything else in the cluster that can reach the port.
type frontProxies struct {
	verifier authenticator.Request
}

// newFrontProxies returns what recognizes the front proxies of this configuration. Without one there are none.
func newFrontProxies(config *authenticatorfactory.RequestHeaderConfig) *frontProxies {
	if config == nil {
		return &frontProxies{}
	}
	known := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, true, nil })
	return &frontProxies{verifier: x509.NewDynamicCAVerifier(config.CAContentProvider.VerifyOptions, known, config.AllowedClientNames)}
}

// has reports whether the peer of a connection is a front proxy, by the authorities that there are now.
func (f *frontProxies) has(state *tls.ConnectionState) bool {
	if f.verifier == nil || state == nil {
		return false
	}
	_, known, err := f.verifier.AuthenticateRequest(&http.Request{TLS: state})
	return known && err == nil
}
