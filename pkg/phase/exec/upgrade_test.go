// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/testing/patience"
)

// blockedWriter blocks from its first write until the context ends.
type blockedWriter struct {
	ctx     context.Context
	blocked chan struct{}
}

func (b blockedWriter) Write(p []byte) (int, error) {
	close(b.blocked)
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// A connection is read while no writer is busy. It can be closed at any time.
func TestConnectionIsNotReadWhileWriterIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		paused := newPause()
		connection := &pausedConn{ReadWriteCloser: ours, paused: paused}
		ctx, cancel := context.WithCancel(t.Context())
		writer := blockedWriter{ctx, make(chan struct{})}
		go func() { _, _ = paused.writer(writer).Write([]byte("x")) }()
		<-writer.blocked
		var got []byte
		var readErr error
		read := func() {
			p := make([]byte, 10)
			n, err := connection.Read(p)
			got, readErr = append(got, p[:n]...), err
		}
		go read()
		go func() { _, _ = theirs.Write([]byte("one")) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("read while a writer is busy: %q", got)
		}
		cancel()
		synctest.Wait()
		if string(got) != "one" || readErr != nil {
			t.Errorf("read afterwards: got %q (%v), want one", got, readErr)
		}

		second, end := context.WithCancel(t.Context())
		defer end()
		go func() { _, _ = paused.writer(blockedWriter{second, make(chan struct{})}).Write([]byte("x")) }()
		synctest.Wait()
		go read()
		synctest.Wait()
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !errors.Is(readErr, net.ErrClosed) {
			t.Errorf("reading a closed connection: got error %v, want %v", readErr, net.ErrClosed)
		}
		if _, err := connection.Write([]byte("x")); err == nil {
			t.Error("a closed connection is written to")
		}
	})
}

// serveCommand serves commands that print text, as a kubelet does.
func serveCommand(t *testing.T, text string) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := httpstream.Handshake(req, w, streamProtocols); err != nil {
			return
		}
		type opened struct {
			httpstream.Stream
			replied <-chan struct{}
		}
		streams := make(chan opened, 3)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replied <-chan struct{}) error {
			streams <- opened{s, replied}
			return nil
		})
		if connection == nil {
			return
		}
		defer func() { _ = connection.Close() }()
		byType := map[string]httpstream.Stream{}
		for range 3 {
			stream := <-streams
			<-stream.replied // what is printed before the reply to the last stream fills the connection, and the client waits for that reply
			byType[stream.Headers().Get(corev1.StreamType)] = stream
		}
		_, _ = io.CopyBuffer(struct{ io.Writer }{byType[corev1.StreamTypeStdout]}, struct{ io.Reader }{strings.NewReader(text)}, make([]byte, 32<<10))
		_, _ = io.WriteString(byType[corev1.StreamTypeError], `{"kind":"Status","status":"Success"}`)
		for _, stream := range byType {
			_ = stream.Close()
		}
		<-connection.CloseChan()
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// A command on a real connection: all that it prints is read, and a writer that waits ends with the context.
func TestCommandOnConnection(t *testing.T) {
	text := strings.Repeat("0123456789abcdef\n", 1<<18)
	config := serveCommand(t, text)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	run := NewExecutor(phase.Environment{Client: client, RESTConfig: config})
	var stdout bytes.Buffer
	opened := false
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	err = run(whenOpened(ctx, func() { opened = true }), Container{"ns", "p", "c"}, []string{"x"}, &stdout, io.Discard)
	if err != nil || stdout.String() != text || !opened {
		t.Errorf("got %d bytes, error %v, opened: %t; want the %d bytes that were printed", stdout.Len(), err, opened, len(text))
	}

	blocked := blockedWriter{t.Context(), make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	blocked.ctx = ctx
	go func() { ended <- run(ctx, Container{"ns", "p", "c"}, []string{"x"}, blocked, io.Discard) }()
	select {
	case <-blocked.blocked:
	case err := <-ended:
		t.Fatalf("the command has ended before it has printed anything: %v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// A command has not begun if there is no connection, whatever the reason.
func TestFailedHandshakeIsBeforeStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	config := &rest.Config{Host: "https://" + listener.Addr().String()}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = NewExecutor(phase.Environment{Client: client, RESTConfig: config})(t.Context(), Container{"ns", "p", "c"}, []string{"x"}, io.Discard, io.Discard)
	if !notStarted(err) {
		t.Errorf("got error %v, want one from before the start", err)
	}
}
