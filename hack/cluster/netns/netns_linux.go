// Package netns gives this process, and what it starts, a network of its own that leads nowhere outside.
//
// A network namespace belongs to a thread, and a Go program has many. So Enter executes the program again from a thread that has
// entered a new namespace: other processes still see the same process. It hands over a listener that was opened before: a socket
// stays in the network in which it was created, and is the only way in from outside.
//
// The namespace has no name and goes with the last process in it.
package netns

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// listenerEnv passes the file descriptor of the listener to the new execution.
const listenerEnv = "MILLWRIGHT_CLUSTER_LISTENER"

// Enter executes this program again, with the same arguments, in a new network namespace. It returns only on an error. There,
// Inherited returns the listener.
func Enter(listener *net.TCPListener) error {
	file, err := listener.File()
	if err != nil {
		return fmt.Errorf("handing on the listener: %w", err)
	}
	defer file.Close()
	fd := file.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("handing on the listener: %w", err)
	}

	// Never unlocked: should something fail, the thread ends with its goroutine.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	err = syscall.Exec("/proc/self/exe", os.Args, append(withoutProxies(os.Environ()), fmt.Sprintf("%s=%d", listenerEnv, fd)))
	return fmt.Errorf("executing %s in a network namespace: %w", os.Args[0], err)
}

// Inherited returns the listener that Enter has handed on, nil in a process that has not been in Enter.
func Inherited() (*net.TCPListener, error) {
	value, entered := os.LookupEnv(listenerEnv)
	if !entered {
		return nil, nil
	}
	if err := os.Unsetenv(listenerEnv); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", listenerEnv, value, err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("taking over the listener: %w", err)
	}
	return listener.(*net.TCPListener), nil
}

// withoutProxies leaves out what would send requests to a proxy, which cannot be reached.
func withoutProxies(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// bridge is the interface that has the node's address. It is a bridge without ports because not every kernel has dummy interfaces.
const bridge = "node0"

// settings are those of the kernel for this network.
var settings = []struct{ path, value, why string }{
	{"/proc/sys/net/ipv4/ip_forward", "1", "Pods reach each other by it"},
	// Else the answer of a Pod on the same bridge does not pass by what has replaced the ClusterIP, and is not recognized.
	{"/proc/sys/net/bridge/bridge-nf-call-iptables", "1", "Pods reach Services by it (load the module br_netfilter)"},
}

// Configure sets up the network of this process, which has to be a new one: loopback, the node's address, and a route for
// ClusterIPs.
func Configure(address, serviceRange string) error {
	for _, s := range settings {
		if err := os.WriteFile(s.path, []byte(s.value), 0); err != nil {
			return fmt.Errorf("setting %s, for %s: %w", s.path, s.why, err)
		}
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("enabling the loopback interface: %w", err)
	}

	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("making bridge %s: %w", bridge, err)
	}
	ip := net.ParseIP(address)
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)}}); err != nil {
		return fmt.Errorf("giving bridge %s the address %s: %w", bridge, address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("enabling bridge %s: %w", bridge, err)
	}
	// It leads nowhere: kube-proxy's rules replace the destination and the packet is routed again. But there has to be one,
	// and not by loopback, where the rejection of a Service without endpoints would be lost and the caller wait for its
	// timeout.
	_, services, err := net.ParseCIDR(serviceRange)
	if err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: services, Src: ip}); err != nil {
		return fmt.Errorf("making a route to %s: %w", serviceRange, err)
	}
	return nil
}
