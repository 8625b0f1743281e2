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
	host, _, _ := net.SplitHostPort(hostPort)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = ipv6Network
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
