// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/testcluster"
)

// Clients that are not known, and connect directly to the API server of the farm, neither exhaust its memory limit nor slow down requests by
// kube-apiserver: 500 half-sent requests/s of 1,000 clients, without tokens and with random ones, and 600 half-sent headers, from eight addresses.
func TestFarmPortMemory(t *testing.T) {
	onlyAsMemoryTest(t)
	cluster := testcluster.Start(t, clusterOptions...)
	f := installFarm(t, cluster)
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := operatorAccount(t, cluster).WriteKubeconfig(t)
	stop := runManagerWith(t, func(options *manager.Options) {
		options.Kubeconfig, options.Controllers = kubeconfig, []string{"servingcert"}
	})
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	p := startLimited(t, farmOperator, append(serverArgs(f.kubeconfig, port), "--serving-secret="+farmNamespace+"/"+servingSecret)...)
	f.front.add(address)
	f.awaitAvailable(t)
	stop()
	e := newFarmEnv(t, f)

	asked := 0
	median := func() time.Duration {
		t.Helper()
		var times []time.Duration
		for range 500 {
			began := time.Now()
			asked++ // another name each time: an access review is cached
			if _, err := e.llamas.Get(t.Context(), fmt.Sprintf("absent-%d", asked), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				p.mustRun(t)
				t.Fatal(err)
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	median() // connections and caches are warm after it
	before := median()
	attack := newPortAttack(t, address)
	attack.begin(t)
	during := median()
	sent, refused := attack.end()
	p.mustRun(t)
	t.Logf("a request takes %.2f times as long during the attack; %d requests were sent, and %d of them refused", during.Seconds()/before.Seconds(), sent, refused)
	if during > 2*before {
		t.Errorf("median time of a request: got %s during the attack, want at most twice the %s before", during, before)
	}
	if sent < 1000 || refused == 0 {
		t.Errorf("the attack: got %d requests sent and %d refused, want thousands", sent, refused)
	}
	if after := median(); after > 2*before {
		t.Errorf("median time of a request: got %s after the attack, want at most twice the %s before", after, before)
	}
	p.mustHaveFit(t)
}

// portAttack sends requests that never end, from several addresses.
type portAttack struct {
	address       string
	ctx           context.Context
	cancel        context.CancelFunc
	clients       sync.WaitGroup
	sent, refused atomic.Int64
}

const (
	attackers        = 1000
	attackInterval   = 2 * time.Second // of each attacker
	attackAddresses  = 4               // of requests, and as many of headers
	attackWarmUpSent = 1000
	halfSentBody     = 64 << 10 // bytes
	halfSentHeaders  = 600
	halfSentHeader   = 900 << 10        // bytes
	headerInterval   = 10 * time.Second // of each header
)

func newPortAttack(t *testing.T, address string) *portAttack {
	ctx, cancel := context.WithCancel(t.Context())
	return &portAttack{address: address, ctx: ctx, cancel: cancel}
}

// dialer dials from one of the addresses of the attack: those of requests, and then those of headers.
func (a *portAttack) dialer(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}}
}

// begin returns when the attack has sent its first thousand requests.
func (a *portAttack) begin(t *testing.T) {
	t.Helper()
	for i := range attackAddresses {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DialContext: a.dialer(i).DialContext}
		for j := range attackers / attackAddresses {
			a.clients.Go(func() {
				a.sendHalfBodies(&http.Client{Transport: transport}, fmt.Sprintf("attacker-%d-%d", i, j), j%2 == 0)
			})
		}
	}
	for i := range halfSentHeaders {
		a.clients.Go(func() { a.sendHalfHeader(i) })
	}
	for a.sent.Load() < attackWarmUpSent {
		select {
		case <-t.Context().Done():
			t.Fatal("the attack does not begin")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end returns how many requests were sent, and how many of them were refused.
func (a *portAttack) end() (sent, refused int64) {
	a.cancel()
	a.clients.Wait()
	return a.sent.Load(), a.refused.Load()
}

func (a *portAttack) sendHalfBodies(client *http.Client, name string, forges bool) {
	for i := 0; ; i++ {
		a.sendHalfBody(client, fmt.Sprintf("%s-%d", name, i), forges)
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(attackInterval):
		}
	}
}

// sendHalfBody sends the first half of a body, and waits for the answer.
func (a *portAttack) sendHalfBody(client *http.Client, name string, forges bool) {
	body, half := io.Pipe()
	defer body.Close()
	defer half.Close()
	request, err := http.NewRequestWithContext(a.ctx, http.MethodPost, "https://"+a.address+"/apis/farm.example.com/v1alpha/namespaces/"+name+"/llamas", body)
	if err != nil {
		return
	}
	if forges {
		request.Header.Set("Authorization", "Bearer "+name)
	}
	request.Header.Set("Content-Type", "application/json")
	go func() { _, _ = half.Write(make([]byte, halfSentBody)) }()
	a.sent.Add(1)
	response, err := client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusTooManyRequests {
		a.refused.Add(1)
	}
}

// sendHalfHeader sends a header that does not end, and waits until the connection is closed, again and again.
func (a *portAttack) sendHalfHeader(i int) {
	dialer := &tls.Dialer{NetDialer: a.dialer(attackAddresses + i%attackAddresses), Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}
	for a.ctx.Err() == nil {
		connection, err := dialer.DialContext(a.ctx, "tcp", a.address)
		if err == nil {
			stop := context.AfterFunc(a.ctx, func() { _ = connection.Close() })
			_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: farm\r\nX-Half: "+strings.Repeat("x", halfSentHeader))
			_, _ = io.Copy(io.Discard, connection)
			stop()
			_ = connection.Close()
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(headerInterval):
		}
	}
}
