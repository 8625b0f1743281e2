// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"net"
	"net/url"
	"strings"
)

// Endpoint is the access to all hooks on one host that bring none of their own.
type Endpoint struct {
	// Host is a host name, or host:port. Case does not matter, nor whether the default port of the scheme is written out.
	Host string
	Access
}

// canonicalHost returns the host of a URL as lower-case host:port.
func canonicalHost(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort(u)
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

func defaultPort(u *url.URL) string {
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// accessFor returns the hook's own access if it has any, else that of the first endpoint of its host. They are never mixed.
func accessFor(u *url.URL, own Access, endpoints []Endpoint) Access {
	if own != (Access{}) {
		return own
	}
	canonical := canonicalHost(u)
	for _, endpoint := range endpoints {
		name := strings.ToLower(endpoint.Host)
		if name == canonical || name == strings.ToLower(u.Host) || net.JoinHostPort(unbracketed(name), defaultPort(u)) == canonical {
			return endpoint.Access
		}
	}
	return Access{}
}

// unbracketed returns an IPv6 address without its brackets.
func unbracketed(name string) string {
	if inner, found := strings.CutPrefix(name, "["); found {
		return strings.TrimSuffix(inner, "]")
	}
	return name
}
