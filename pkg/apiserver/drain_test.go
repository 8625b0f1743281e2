// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"millwright.dev/pkg/testing/patience"
)

// raw is a client that shows each frame, where that of Go obeys it.
type raw struct {
	*http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
}

// raw connects as kube-apiserver does.
func (s *served) raw(t *testing.T) *raw {
	t.Helper()
	return s.rawWith(t, s.front.Issue(t, "front-proxy").TLS)
}

func (s *served) rawWith(t *testing.T, certificates ...tls.Certificate) *raw {
	t.Helper()
	connection, err := tls.Dial("tcp", s.address, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{http2.NextProtoTLS}, Certificates: certificates,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience.Limit)); err != nil {
		t.Fatal(err)
	}
	return newRaw(t, connection)
}

// newRaw begins HTTP/2 on a connection.
func newRaw(t *testing.T, connection net.Conn) *raw {
	t.Helper()
	if _, err := connection.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	r := &raw{Framer: http2.NewFramer(connection, connection)}
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.encoder = hpack.NewEncoder(&r.headers)
	if err := r.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return r
}

// get a path on a stream.
func (r *raw) get(t *testing.T, stream uint32, path string, headers ...hpack.HeaderField) {
	t.Helper()
	r.headers.Reset()
	for _, header := range append([]hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "farm"}, {Name: ":path", Value: path},
		{Name: "x-remote-user", Value: "farmer"},
	}, headers...) {
		_ = r.encoder.WriteField(header)
	}
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.headers.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// await the frame that is wanted, whatever comes before it.
func await[F http2.Frame](t *testing.T, from *raw) F {
	t.Helper()
	for {
		frame, err := from.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if wanted, is := frame.(F); is {
			return wanted
		}
	}
}

func awaitStatus(t *testing.T, from *raw, status string) {
	t.Helper()
	if answer := await[*http2.MetaHeadersFrame](t, from); answer.PseudoValue("status") != status {
		t.Errorf("answered by %v, want %s", answer, status)
	}
}

func TestRequestsBeforeAMoveAreAnswered(t *testing.T) {
	s := start(t, "--shutdown-delay-duration=2s")
	client := s.raw(t)
	client.get(t, 1, "/livez")
	await[*http2.MetaHeadersFrame](t, client)
	s.stop()
	if goAway := await[*http2.GoAwayFrame](t, client); goAway.LastStreamID != 1<<31-1 || goAway.ErrCode != http2.ErrCodeNo {
		t.Fatalf("asked to move by %v", goAway)
	}
	// It was on its way when the server said that.
	client.get(t, 3, "/livez")
	answer := await[*http2.MetaHeadersFrame](t, client)
	if answer.StreamID != 3 || answer.PseudoValue("status") != "200" {
		t.Errorf("answered by %v", answer)
	}
	// Who comes nevertheless is asked too.
	late := s.raw(t)
	late.get(t, 1, "/livez")
	if goAway := await[*http2.GoAwayFrame](t, late); goAway.LastStreamID != 1<<31-1 {
		t.Errorf("asked to move by %v", goAway)
	}
	awaitStatus(t, late, "200")
}

func TestNothingIsWrittenWithinAFrame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var stream bytes.Buffer
		framer, ends := http2.NewFramer(&stream, nil), map[int]bool{}
		for range 5 {
			if err := framer.WriteData(1, false, make([]byte, random.IntN(40))); err != nil {
				t.Fatal(err)
			}
			ends[stream.Len()] = true
		}
		var follow frames
		if follow.isBetween() {
			t.Fatal("something may be said before the first frame")
		}
		for passed := 0; stream.Len() > 0; {
			part := stream.Next(1 + random.IntN(30))
			follow.pass(part)
			passed += len(part)
			if follow.isBetween() != ends[passed] {
				t.Fatalf("after %d bytes: between frames %t, frames end at %v", passed, follow.isBetween(), ends)
			}
		}
	}
}
