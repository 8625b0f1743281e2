// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"net"
	"slices"
)

// Names are what a certificate is for: DNS names and IP addresses, in any order.
type Names []string

// ServiceNames are the names by which the API server and the Pods of the cluster call a Service.
func ServiceNames(namespace, name, clusterDomain string) Names {
	host := name + "." + namespace + ".svc"
	return Names{host, host + "." + clusterDomain}
}

// split returns DNS names and addresses apart, sorted, each once.
func (n Names) split() (dns []string, addresses []net.IP) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(n))) {
		if address := net.ParseIP(name); address != nil {
			addresses = append(addresses, address)
		} else {
			dns = append(dns, name)
		}
	}
	return dns, addresses
}

// match reports whether a certificate is for these names, and for no others.
func (n Names) match(certificate *x509.Certificate) bool {
	return slices.Equal(n.normal(), append(Names(slices.Clone(certificate.DNSNames)), texts(certificate.IPAddresses)...).normal())
}

func (n Names) normal() []string {
	dns, addresses := n.split()
	return append(dns, slices.Compact(slices.Sorted(slices.Values(texts(addresses))))...)
}

func texts(addresses []net.IP) []string {
	var all []string
	for _, address := range addresses {
		all = append(all, address.String())
	}
	return all
}
