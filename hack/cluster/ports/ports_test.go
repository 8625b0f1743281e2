package ports

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestListenTakesTheWantedPort(t *testing.T) {
	free := mustListen(t, 0)
	wanted := Of(free)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if got := Of(mustListen(t, wanted)); got != wanted {
		t.Errorf("port %d was free, got %d", wanted, got)
	}
}

func TestListenFallsBackWhenThePortIsTaken(t *testing.T) {
	first := mustListen(t, 0)
	second := mustListen(t, Of(first))
	if Of(second) == Of(first) || Of(second) == 0 {
		t.Errorf("port %d is taken, got %d", Of(first), Of(second))
	}
}

func TestListenIsOnLoopbackOnly(t *testing.T) {
	if address := mustListen(t, 0).Addr().(*net.TCPAddr).IP; !address.IsLoopback() {
		t.Errorf("listens on %s", address)
	}
}

func TestListenHidesNoOtherError(t *testing.T) {
	_, err := Listen(1 << 20)
	if err == nil || errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port out of range: got error %v", err)
	}
}

func mustListen(t *testing.T, port int) *net.TCPListener {
	t.Helper()
	listener, err := Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}
