// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// front is where the Service leads to. It passes each connection on to one of the servers that say that they are ready, in turn, as
// kube-proxy does with the endpoints of a Service.
type front struct {
	listener net.Listener
	health   *http.Client
	running  sync.WaitGroup

	mu          sync.Mutex
	servers     []string
	anyServer   bool // whether it says that it is ready or not
	turn        int
	connections map[net.Conn]string // to which server
}

func openFront() (*front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{
		listener:    listener,
		health:      &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		connections: map[net.Conn]string{},
	}
	f.running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			f.running.Go(func() { f.pass(connection) })
		}
	})
	return f, nil
}

func (f *front) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

func (f *front) add(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers, server)
}

// remove a server: no new connection gets there. Those that are stay until either side ends them.
func (f *front) remove(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = slices.DeleteFunc(f.servers, func(other string) bool { return other == server })
}

// ignoresReadiness makes it use servers that are not ready too, as a Service with publishNotReadyAddresses.
func (f *front) ignoresReadiness(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anyServer = yes
}

// cut all connections.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for connection := range f.connections {
		_ = connection.Close()
	}
}

// servedBy tells how many connections lead to the server.
func (f *front) servedBy(server string) (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.connections {
		if other == server {
			count++
		}
	}
	return count
}

// close it with all that goes through it.
func (f *front) close() {
	_ = f.listener.Close()
	f.cut()
	f.running.Wait()
}

func (f *front) pass(client net.Conn) {
	defer client.Close()
	server, address := f.dial()
	if server == nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	f.connections[client] = address
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.connections, client)
	}()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}

// dial the next server that is ready; nil if none is.
func (f *front) dial() (net.Conn, string) {
	f.mu.Lock()
	f.turn++
	turn, servers, anyServer := f.turn, slices.Clone(f.servers), f.anyServer
	f.mu.Unlock()
	for i := range servers {
		address := servers[(turn+i)%len(servers)]
		if !anyServer && !f.ready(address) {
			continue
		}
		if server, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			return server, address
		}
	}
	return nil, ""
}

func (f *front) ready(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), f.health.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := f.health.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
