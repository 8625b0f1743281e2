// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package portrange

import (
	"net"
	"testing"
)

// TestReserve: a port is reserved once, also while its server is stopped, and one on which another server listens is not.
func TestReserve(t *testing.T) {
	one := Range{19000, 19001}
	first, err := one.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		server, err := net.Listen("tcp", first.Address())
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if second, err := one.Reserve(); err == nil {
			t.Errorf("port %d was reserved twice", second.Port)
		}
	}
	first.Release()
	server, err := net.Listen("tcp", first.Address())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := one.Reserve(); err == nil {
		t.Errorf("port %d was reserved while a server listens on it", second.Port)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := one.Reserve()
	if err != nil {
		t.Fatalf("after all is released: %v", err)
	}
	again.Release()
}
