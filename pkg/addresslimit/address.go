// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net"
	"net/netip"
)

// ipv6Network is the part of an IPv6 address that is compared, in bits: a host may have all addresses of such a network.
const ipv6Network = 64

// Of returns the network that is limited as one address, from the host:port of a client. Clients whose address is not known share one.
func Of(hostPort string) netip.Prefix {
	address := Whole(hostPort)
	bits := address.BitLen()
	if address.Is6() {
		bits = ipv6Network
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// Whole returns the address from the host:port of a client, or the zero value if it is not known. It is for limits that all Pods of a node must not
// share, which may have one /64.
func Whole(hostPort string) netip.Addr {
	host, _, _ := net.SplitHostPort(hostPort)
	address, _ := netip.ParseAddr(host)
	return address.Unmap().WithZone("")
}
