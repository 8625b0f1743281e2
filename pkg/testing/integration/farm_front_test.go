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

// front is the endpoint of the Service. It forwards each connection to the next server that is ready, as kube-proxy does with the
// endpoints of a Service.
type front struct {
	listener net.Listener
	health   *http.Client
	running  sync.WaitGroup

	mu          sync.Mutex
	servers     []string
	anyServer   bool // also those that are not ready
	turn        int
	connections map[net.Conn]string // the server of each
}

func openFront() (*front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{
		listener: listener,
		health: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}},
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

// remove removes a server. It gets no new connections. Existing ones stay until either side closes them.
func (f *front) remove(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = slices.DeleteFunc(f.servers, func(other string) bool { return other == server })
}

// ignoresReadiness sets whether servers that are not ready get connections too, as with a Service with publishNotReadyAddresses.
func (f *front) ignoresReadiness(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anyServer = yes
}

// cut closes all connections.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for connection := range f.connections {
		_ = connection.Close()
	}
}

// servedBy returns how many connections the server has.
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

// close closes the listener and all connections.
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

// dial returns a connection to the next server that is ready, or nil if none is.
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
