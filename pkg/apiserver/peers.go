// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/x509"

	"millwright.dev/pkg/addresslimit"
)

// peers distinguishes kube-apiserver, which passes on the requests of many clients, from clients that connect directly: Prometheus, probes, and
// everything else in the cluster that can reach the port. A peer is kube-apiserver if its certificate is that of a front proxy.
type peers struct {
	proxies authenticator.Request
}

// newPeers returns what recognizes the front proxies of this configuration. Without one, all peers connect directly.
func newPeers(config *authenticatorfactory.RequestHeaderConfig) *peers {
	if config == nil {
		return &peers{}
	}
	known := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, true, nil })
	return &peers{proxies: x509.NewDynamicCAVerifier(config.CAContentProvider.VerifyOptions, known, config.AllowedClientNames)}
}

type peerKey struct{}

// peer is the other end of a connection.
type peer struct {
	// direct is called after the handshake.
	direct func() bool
}

// context is that of the requests of a connection. It is the ConnContext of an http.Server.
func (p *peers) context(ctx context.Context, connection net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{direct: sync.OnceValue(func() bool { return p.isDirect(connection) })})
}

func (p *peers) isDirect(connection net.Conn) bool {
	encrypted, ok := connection.(*tls.Conn)
	if !ok || p.proxies == nil {
		return true
	}
	state := encrypted.ConnectionState()
	if _, known, err := p.proxies.AuthenticateRequest(&http.Request{TLS: &state}); err != nil || !known {
		return true
	}
	addresslimit.Exempt(encrypted.NetConn())
	return false
}

// isDirect reports whether a request, whose context this is, was not passed on by kube-apiserver.
func isDirect(ctx context.Context) bool {
	from, ok := ctx.Value(peerKey{}).(*peer)
	return !ok || from.direct()
}
