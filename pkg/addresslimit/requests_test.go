// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net/netip"
	"testing"
)

func TestRequests(t *testing.T) {
	l := NewRequests(2, 3)
	begin := func(address string, want bool) func() {
		t.Helper()
		end, ok := l.Begin(netip.MustParseAddr(address))
		if ok != want {
			t.Errorf("a request of %s may be served: got %t, want %t", address, ok, want)
		}
		return end
	}
	const attacker, other, third = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	end := begin(attacker, true)
	begin(attacker, true)
	begin(attacker, false) // the limit of an address
	endOther := begin(other, true)
	begin(third, false) // the limit of all
	end()
	end()
	begin(third, true)
	begin(other, false)
	endOther()
	begin(attacker, true)
	begin(attacker, false)
	if len(l.open) != 2 {
		t.Errorf("got %d addresses, want the two that have requests", len(l.open))
	}
}
