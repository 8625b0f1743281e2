// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// containerLog is the log of a container.
type containerLog struct {
	mu      sync.Mutex
	text    []byte
	ended   bool
	streams int
	cuts    int           // how often cut was called
	broken  bool          // whether the last cut broke connections
	changed chan struct{} // closed and replaced with every change
}

func (l *containerLog) change(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Write implements io.Writer.
func (l *containerLog) Write(p []byte) (int, error) {
	l.change(func() { l.text = append(l.text, p...) })
	return len(p), nil
}

func (l *containerLog) end() { l.change(func() { l.ended = true }) }

// cut ends the open streams, either as a kubelet does after some hours, or as a connection that breaks.
func (l *containerLog) cut(breaking bool) {
	l.change(func() { l.cuts++; l.broken = breaking })
}

// opened returns how many streams were opened since the start.
func (l *containerLog) opened() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams
}

// lastLines returns the last n lines of a log, or all if n is negative.
func lastLines(text []byte, n int) []byte {
	lines := slices.Collect(strings.Lines(string(text)))
	if n < 0 || n > len(lines) {
		return text
	}
	return []byte(strings.Join(lines[len(lines)-n:], ""))
}

// serveLog answers a request for the log of a container, as a kubelet does.
func (n *testNode) serveLog(w http.ResponseWriter, req *http.Request) {
	container, query := req.PathValue("container"), req.URL.Query()
	follow := query.Get("follow") == "true"
	n.mu.Lock()
	refuse := n.refuseLogs
	n.mu.Unlock()
	if refuse != nil {
		if code := refuse(container, follow); code != 0 {
			http.Error(w, "the log is not available at the moment", code)
			return
		}
	}
	p := n.podOf(req.PathValue("namespace"), req.PathValue("pod"))
	if p == nil || p.logs[container] == nil {
		http.Error(w, fmt.Sprintf("pod %q has no container %q", req.PathValue("pod"), container), http.StatusNotFound)
		return
	}
	tail := -1
	if lines, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		tail = lines
	}
	p.logs[container].serve(req.Context(), w, follow, tail)
}

func (l *containerLog) serve(ctx context.Context, w http.ResponseWriter, follow bool, tail int) {
	l.mu.Lock()
	l.streams++
	cuts := l.cuts
	l.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	for sent := 0; ; {
		l.mu.Lock()
		text, ended, changed, cut, broken := l.text[sent:], l.ended, l.changed, l.cuts > cuts, l.broken
		if sent == 0 {
			text = lastLines(text, tail)
		}
		sent = len(l.text)
		l.mu.Unlock()
		if cut && broken {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(text); err != nil || ended || cut || !follow {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// streamTimeout is how long a client may take to open the streams of a command.
const streamTimeout = 30 * time.Second

// serveExec runs a command in a container, as a kubelet does that speaks SPDY.
func (n *testNode) serveExec(w http.ResponseWriter, req *http.Request) {
	namespace, pod, container := req.PathValue("namespace"), req.PathValue("pod"), req.PathValue("container")
	p, command := n.podOf(namespace, pod), req.URL.Query()["command"]
	if p == nil || p.logs[container] == nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", container), http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(req, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return // Handshake has written the response
	}
	type stream struct {
		httpstream.Stream
		ready <-chan struct{}
	}
	opened := make(chan stream, 3)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replySent <-chan struct{}) error {
		opened <- stream{s, replySent}
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	n.mu.Lock()
	n.connections = append(n.connections, connection)
	n.mu.Unlock()
	streams := map[string]httpstream.Stream{}
	for len(streams) < 3 {
		select {
		case s := <-opened:
			<-s.ready
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-time.After(streamTimeout):
			return
		}
	}
	n.mu.Lock()
	n.execs = append(n.execs, fmt.Sprintf("%s/%s/%s: %s", namespace, pod, container, strings.Join(command, " ")))
	n.mu.Unlock()
	ctx, stop := context.WithCancel(n.ctx)
	defer stop()
	go func() {
		select {
		case <-connection.CloseChan():
			stop()
		case <-ctx.Done():
		}
	}()
	status := metav1.Status{Status: metav1.StatusSuccess}
	run := n.program(command[0])
	code := 127
	if run != nil {
		code = run(ctx, &call{
			pod: p.pod, container: container, command: command,
			stdout: copied{streams[corev1.StreamTypeStdout]}, stderr: copied{streams[corev1.StreamTypeStderr]},
		})
	}
	if code != 0 {
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: exit status %d", code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
		}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status) // fails if the client is gone
	for _, s := range streams {
		_ = s.Close()
	}
	// The API server drops what it has not passed on if the client sends a ping to a connection that is closed.
	select {
	case <-connection.CloseChan():
	case <-time.After(streamTimeout):
	}
}

// copied writes 32 KiB at a time, as container runtimes do: each write is one frame, which the client holds in memory.
type copied struct{ io.Writer }

func (c copied) Write(p []byte) (written int, err error) {
	for piece := range slices.Chunk(p, 32<<10) {
		n, err := c.Writer.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// breakStreams breaks the connections of all commands, as a network does.
func (n *testNode) breakStreams() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, connection := range n.connections {
		_ = connection.Close()
	}
}

// executed returns the commands that were executed in containers, as namespace/pod/container: command.
func (n *testNode) executed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.execs)
}
