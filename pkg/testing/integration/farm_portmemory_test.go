// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

// Clients that are not known, and connect directly to the API server of the farm, neither exhaust its memory limit, nor slow down requests by
// kube-apiserver, nor keep probes from their answer. From twelve addresses 1,000 clients send 500 half-sent requests/s, without tokens and with random
// ones, 600 send half-sent headers, and 256 read none of their answers.
func TestFarmPortMemory(t *testing.T) {
	onlyAsMemoryTest(t)
	f := installFarm(t, testcluster.Start(t, clusterOptions...))
	t.Cleanup(f.front.close)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	var p *limitedProcess
	f.startWith(t, func() {
		p = startLimited(t, farmOperator, append(serverArgs(f.kubeconfig, port), "--serving-secret="+farmNamespace+"/"+servingSecret)...)
		f.front.add(address)
	})
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
			if asked%10 == 0 {
				probe(t, address)
			}
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	median() // connections and caches are warm after it
	before := median()
	attack := newPortAttack(t, address)
	attack.begin(t)
	during := median()
	sent, refused, unread := attack.end()
	p.mustRun(t)
	t.Logf("a request takes %.2f times as long during the attack; %d requests were sent, and %d of them refused; %d answers were not read",
		during.Seconds()/before.Seconds(), sent, refused, unread)
	if during > 2*before {
		t.Errorf("median time of a request: got %s during the attack, want at most twice the %s before", during, before)
	}
	if sent < attackWarmUpSent || refused == 0 || unread == 0 {
		t.Errorf("the attack: got %d requests sent, %d refused, and %d not read, want thousands", sent, refused, unread)
	}
	if after := median(); after > 2*before {
		t.Errorf("median time of a request: got %s after the attack, want at most twice the %s before", after, before)
	}
	p.mustHaveFit(t)
}

// probe asks as a kubelet does, on a connection of its own.
func probe(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Timeout: patience.Limit, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}}
	response, err := client.Get("https://" + address + "/readyz")
	if err != nil {
		t.Errorf("a probe: %v", err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a probe: got %s, want 200", response.Status)
	}
}

// portAttack sends requests that never end, and reads no answers, from several addresses.
type portAttack struct {
	address               string
	ctx                   context.Context
	cancel                context.CancelFunc
	clients               sync.WaitGroup
	sent, refused, unread atomic.Int64
}

const (
	attackers        = 1000
	attackInterval   = 2 * time.Second // of each attacker
	attackAddresses  = 4               // of requests, as many of headers, and as many of clients that do not read
	attackWarmUpSent = 1000
	halfSentBody     = 64 << 10 // bytes
	halfSentHeaders  = 600
	attackHeader     = 15 << 10         // bytes; with 2 KiB more it would be refused
	attackFields     = 400              // of a header, each of which counts 35 bytes
	attackPings      = 9000             // of a client; with 10,000 that are not answered, the connection is closed
	headerInterval   = 10 * time.Second // of each header
	unreading        = 256
	unreadStreams    = 8 // of each client
)

func newPortAttack(t *testing.T, address string) *portAttack {
	ctx, cancel := context.WithCancel(t.Context())
	return &portAttack{address: address, ctx: ctx, cancel: cancel}
}

// dialer dials from one of the addresses of the attack: those of requests, those of headers, and those of clients that do not read.
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
		a.clients.Go(func() { a.onConnections(attackAddresses+i%attackAddresses, "http/1.1", a.sendHalfHeader) })
	}
	for i := range unreading {
		a.clients.Go(func() { a.onConnections(2*attackAddresses+i%attackAddresses, http2.NextProtoTLS, a.readNoAnswers) })
	}
	for a.sent.Load() < attackWarmUpSent {
		select {
		case <-t.Context().Done():
			t.Fatal("the attack does not begin")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end returns how many requests were sent, how many of them were refused, and how many answers were not read.
func (a *portAttack) end() (sent, refused, unread int64) {
	a.cancel()
	a.clients.Wait()
	return a.sent.Load(), a.refused.Load(), a.unread.Load()
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

// onConnections attacks on one connection after the other.
func (a *portAttack) onConnections(address int, protocol string, attack func(net.Conn)) {
	dialer := &tls.Dialer{NetDialer: a.dialer(address), Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}}
	for a.ctx.Err() == nil {
		if connection, err := dialer.DialContext(a.ctx, "tcp", a.address); err == nil {
			stop := context.AfterFunc(a.ctx, func() { _ = connection.Close() })
			attack(connection)
			stop()
			_ = connection.Close()
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(headerInterval):
		}
	}
}

// sendHalfHeader sends a header that does not end, and waits until the connection is closed.
func (a *portAttack) sendHalfHeader(connection net.Conn) {
	_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: farm\r\nX-Half: "+strings.Repeat("x", attackHeader))
	_, _ = io.Copy(io.Discard, connection)
}

// status200 is how a block of headers begins with the status 200: RFC 7541, appendix A.
var status200 = []byte{0x88}

// readNoAnswers sends requests with large headers and half of a body, allows the server to send no byte of their answers, does not read the answers to its
// pings, and waits until the connection is closed.
func (a *portAttack) readNoAnswers(connection net.Conn) {
	framer := http2.NewFramer(connection, connection)
	_, _ = io.WriteString(connection, http2.ClientPreface)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for i := range unreadStreams {
		header.Reset()
		fields := []hpack.HeaderField{
			{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "farm"},
			// It is quoted in the answer, which has four times its size then.
			{Name: ":path", Value: "/readyz?verbose&exclude=" + strings.Repeat("\xff", 900)},
		}
		for j := range attackFields {
			fields = append(fields, hpack.HeaderField{Name: fmt.Sprintf("%03d", j)})
		}
		for _, field := range fields {
			_ = encoder.WriteField(field)
		}
		stream := uint32(2*i + 1)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, BlockFragment: header.Bytes()})
		_ = framer.WriteData(stream, false, make([]byte, 16<<10))
	}
	for range unreadStreams + 2 { // the settings, their acknowledgement, and the headers of the answers
		frame, err := framer.ReadFrame()
		if headers, is := frame.(*http2.HeadersFrame); err == nil && is && bytes.HasPrefix(headers.HeaderBlockFragment(), status200) {
			a.unread.Add(1)
		}
	}
	for range attackPings {
		_ = framer.WritePing(false, [8]byte{})
	}
	for framer.WritePing(false, [8]byte{}) == nil {
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
