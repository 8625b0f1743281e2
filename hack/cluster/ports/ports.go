// Package ports opens listeners on loopback.
package ports

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Loopback is the only address that anything of the cluster listens on.
const Loopback = "127.0.0.1"

// Listen listens on the wanted TCP port of the loopback address. If another process has that port, or if wanted is 0, it
// takes any free port. It returns an open listener rather than a number: between finding a free port and using it, another
// process could take it.
func Listen(wanted int) (*net.TCPListener, error) {
	listener, err := listen(wanted)
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = listen(0)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", net.JoinHostPort(Loopback, strconv.Itoa(wanted)), err)
	}
	return listener, nil
}

// Of returns the port of a listener.
func Of(listener *net.TCPListener) int {
	return listener.Addr().(*net.TCPAddr).Port
}

func listen(port int) (*net.TCPListener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(Loopback), Port: port})
}
