// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import "testing"

func TestOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1/32", "[::ffff:192.0.2.1]:1234": "192.0.2.1/32",
		"[2001:db8::1:2:3:4]:1": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64", "": "invalid Prefix", "@": "invalid Prefix",
	} {
		if got := Of(address).String(); got != want {
			t.Errorf("address of %q: got %s, want %s", address, got, want)
		}
	}
}
