// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// Restart stops the whole control plane and starts it again with its state, on the same port. It returns when the control plane is ready.
// No other test may use the cluster at the same time.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop(t)
	c.Continue(t)
}

// Stop stops the control plane and keeps its state. The test must call [Cluster.Continue] before it ends.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	if err := c.process.halt(); err != nil {
		t.Fatal(err)
	}
}

// Continue starts the control plane after [Cluster.Stop], on the same port. It returns when the control plane is ready.
func (c *Cluster) Continue(t testing.TB) {
	t.Helper()
	server, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.process.ended = make(chan struct{})
	if err := c.process.start(server.Port()); err != nil {
		close(c.process.ended)
		t.Fatal(err)
	}
	host, err := c.process.waitReady()
	if err != nil {
		t.Fatalf("%v; it printed:\n%s", err, c.process.output())
	}
	if host != c.config.Host {
		t.Fatalf("another process has taken the port of %s: the API server is now at %s", c.config.Host, host)
	}
}

// Backup copies the data of etcd, and returns a function that restores the copy. Both need a control plane that is stopped.
func (c *Cluster) Backup(t testing.TB) (restore func()) {
	t.Helper()
	data, backup := filepath.Join(c.process.stateDir(), "etcd", "data"), filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatalf("copying the data of etcd: %v", err)
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
			t.Fatalf("restoring the data of etcd: %v", err)
		}
	}
}

// Compact removes all versions from etcd but the newest of each object. The API server does this itself every five minutes: then a client
// that was disconnected for long cannot resume its watch. The API server has a cache of the last versions, so the resumed watch fails only
// after [Cluster.Restart], which empties that cache.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	var status struct{ Header struct{ Revision string } }
	c.etcd(t, "maintenance/status", map[string]any{}, &status)
	c.etcd(t, "kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

// FillEtcd raises the alarm that etcd raises when its database has reached its quota. etcd then refuses all writes, and the API server
// answers them with 500, until [Cluster.MakeRoom].
func (c *Cluster) FillEtcd(t testing.TB) {
	t.Helper()
	c.etcd(t, "maintenance/alarm", map[string]any{"action": "ACTIVATE", "alarm": "NOSPACE"}, nil)
}

// MakeRoom removes the alarm of [Cluster.FillEtcd], as an administrator does after freeing space.
func (c *Cluster) MakeRoom(t testing.TB) {
	t.Helper()
	c.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "alarm": "NOSPACE"}, nil)
}

// etcd calls a method of etcd's JSON API: https://etcd.io/docs/latest/dev-guide/api_grpc_gateway
func (c *Cluster) etcd(t testing.TB, method string, request, response any) {
	t.Helper()
	if err := c.callEtcd(method, request, response); err != nil {
		t.Fatalf("calling the method %s of etcd: %v", method, err)
	}
}

func (c *Cluster) callEtcd(method string, request, response any) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.process.stateDir(), "etcd", "socket"))
		},
		DisableKeepAlives: true,
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	if response == nil {
		return nil
	}
	return json.Unmarshal(answer, response)
}
