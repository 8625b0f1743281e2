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

// Restart stops the control plane, all of it, and starts it again on its state and its port. It returns when it is ready.
// Not for a cluster that other tests use at the same time.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop(t)
	c.Continue(t)
}

// Stop stops the control plane and keeps its state. [Cluster.Continue] has to follow before the test ends.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	if err := c.process.halt(); err != nil {
		t.Fatal(err)
	}
}

// Continue starts the control plane again after [Cluster.Stop], on the same port, and returns when it is ready.
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
	if err := c.process.waitReady(); err != nil {
		t.Fatalf("%v; it printed:\n%s", err, c.process.output())
	}
	if output := c.process.output(); !bytes.Contains(output, []byte(c.config.Host)) {
		t.Fatalf("somebody has taken the port of %s meanwhile; the cluster printed:\n%s", c.config.Host, output)
	}
}

// Backup copies the data of etcd, and returns a function that puts them back. Both work on a control plane that is stopped.
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
			t.Fatalf("putting back the data of etcd: %v", err)
		}
	}
}

// Compact makes etcd forget all versions but the newest of each object. It does every five minutes when it is not asked to: then
// a watch that was away for long cannot go on where it ended. The API server has a memory of its own for the last versions, and
// tells of the loss only where that does not reach back: after [Cluster.Restart].
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	var status struct{ Header struct{ Revision string } }
	c.etcd(t, "maintenance/status", map[string]any{}, &status)
	c.etcd(t, "kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

// FillEtcd raises the alarm that etcd raises when its database has reached its quota. From then on it refuses to store
// anything, and the API server answers 500 to all that would have to be stored, until [Cluster.MakeRoom].
func (c *Cluster) FillEtcd(t testing.TB) {
	t.Helper()
	c.etcd(t, "maintenance/alarm", map[string]any{"action": "ACTIVATE", "alarm": "NOSPACE"}, nil)
}

// MakeRoom lifts the alarm that [Cluster.FillEtcd] has raised, as an administrator does who has made room.
func (c *Cluster) MakeRoom(t testing.TB) {
	t.Helper()
	c.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "alarm": "NOSPACE"}, nil)
}

// etcd calls a method of etcd's API, which speaks JSON too: https://etcd.io/docs/latest/dev-guide/api_grpc_gateway
func (c *Cluster) etcd(t testing.TB, method string, request, response any) {
	t.Helper()
	if err := c.callEtcd(method, request, response); err != nil {
		t.Fatalf("asking etcd for %s: %v", method, err)
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
