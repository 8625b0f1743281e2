// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package portrange reserves ports of loopback for servers of tests that stop, and start again on the same port.
package portrange

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Loopback is the address whose ports are reserved.
const Loopback = "127.0.0.1"

// Range is ports from First on, below Limit. It must lie below the ports that operating systems use for outgoing connections (32768 on Linux).
type Range struct{ First, Limit int }

// Reservation of a port. No other reservation has it, in no process of this machine, until it is released or its process ends.
type Reservation struct {
	Port int
	// held is the UDP port of the same number, which nothing else needs. A TCP port could not be held while its server is stopped.
	held net.PacketConn
}

// Reserve reserves a port on which no server listens now. It returns an error if there is none.
func (r Range) Reserve() (*Reservation, error) {
	for _, i := range rand.Perm(r.Limit - r.First) {
		port := r.First + i
		at := net.JoinHostPort(Loopback, strconv.Itoa(port))
		held, err := net.ListenPacket("udp", at)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reserving port %d: %w", port, err)
		}
		free, err := net.Listen("tcp", at)
		if err == nil {
			return &Reservation{port, held}, free.Close()
		}
		_ = held.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("trying port %d: %w", port, err)
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use", r.First, r.Limit-1)
}

// Address returns host and port.
func (r *Reservation) Address() string { return net.JoinHostPort(Loopback, strconv.Itoa(r.Port)) }

// Release ends the reservation.
func (r *Reservation) Release() { _ = r.held.Close() }
