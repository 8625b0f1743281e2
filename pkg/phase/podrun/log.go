// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase/tail"
)

const (
	// logPause is the delay before a log is opened again while its container runs. The API server reports the end of a container a second or
	// two after the end of its log, so an earlier attempt would be useless. It doubles up to logMaxPause.
	logPause    = 3 * time.Second
	logMaxPause = 30 * time.Second
	// logEndPause is the same after the end of the container. It doubles, too.
	logEndPause = 500 * time.Millisecond
	// logDrain is how long the stream of an ended container may take to end.
	logDrain = 5 * time.Second
	// logLimit is how long reading the log of an ended container is retried although the API server refuses it. The node may come back.
	logLimit = 2 * time.Minute
	// logBuffer is how much of a log is read at a time, in bytes.
	logBuffer = 8 << 10
)

// logReader follows the log of one container, for its outputs and its last lines. Nothing of it is logged, because it may be secret.
//
// A stream may end before the log does: the kubelet cuts it after some hours, and a lost connection looks like an end. Then the log is read again
// from its start. Outputs of earlier readings are kept, because the log may have been rotated meanwhile, and a line is kept once. What was read
// while the container ran may be incomplete, so the log is read once more after the container's end.
//
// A stream that is not read would buffer megabytes in this process. So a reader that has to wait for memory closes its stream before.
type logReader struct {
	open      func(ctx context.Context, follow bool) (io.ReadCloser, error)
	namespace string // of the ActionSet
	limits    logLimits
	cancel    context.CancelFunc
	// ended is closed when the container has ended.
	ended   chan struct{}
	endOnce sync.Once
	// podEnded is closed when the Pod has ended, which may be long after its container.
	podEnded   chan struct{}
	podEndOnce sync.Once

	// The following fields belong to the goroutine that reads.

	// endTurn and endPlace release the turn of the log, and its place for large outputs; nil if it has none.
	endTurn, endPlace func()
	outputs           *blueprint.Outputs
	reader            *blueprint.OutputReader
	bad               error // an output that cannot be read
	// position in the text of this reading, and the position up to which the tail has the text.
	position, taken int64
	// head is the beginning of the text. If it changes, the log was rotated.
	head []byte
	tail []string

	mu     sync.Mutex
	result *logResult
	// problem is why the log cannot be read at the moment.
	problem string
	// changed is called when a problem appears or disappears.
	changed func()
}

// logResult is the result of a log that was read to its end, or as far as possible.
type logResult struct {
	outputs map[string]string
	tail    []string
	// bad is an output that cannot be read.
	bad error
	// missing is why the rest of the log cannot be read.
	missing error
}

// newLogReader returns a reader of a log for an ActionSet in this namespace.
func newLogReader(ctx context.Context, namespace string, limits logLimits, open func(ctx context.Context, follow bool) (io.ReadCloser, error)) *logReader {
	l := &logReader{open: open, namespace: namespace, limits: limits, ended: make(chan struct{}), podEnded: make(chan struct{})}
	l.outputs = blueprint.NewOutputs(ctx, func(context.Context) error { return l.tryTakePlace() })
	l.reader = l.outputs.Reader(0, l.take)
	return l
}

// end records that the container has ended.
func (l *logReader) end() { l.endOnce.Do(func() { close(l.ended) }) }

// endPod records that the Pod has ended.
func (l *logReader) endPod() {
	l.end()
	l.podEndOnce.Do(func() { close(l.podEnded) })
}

// read returns the result; nil while the log is being read.
func (l *logReader) read() *logResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result
}

// run reads the log to its end. It returns false if the context has ended before.
func (l *logReader) run(ctx context.Context) bool {
	following, drained := context.WithCancel(ctx)
	defer drained()
	pause, endPause := logPause, logEndPause
	var refusedSince time.Time
	for l.awaitTurn(ctx) {
		ended := l.hasEnded()
		began := time.Now()
		var err error
		if ended {
			err = l.readOnce(ctx, false)
		} else {
			err = l.follow(following, drained)
		}
		if errors.Is(err, errNoPlace) {
			l.endPlace = l.acquire(ctx, l.limits.large)
			continue
		}
		if err != nil && ctx.Err() == nil && l.bad == nil {
			l.setProblem(err.Error())
		}
		switch {
		case ctx.Err() != nil:
			return false
		case l.bad != nil, err == nil && ended, podGone(err), apierrors.IsForbidden(err):
			l.finish(err)
			return true
		case ended && isAnswer(err) && refusedSince.IsZero():
			refusedSince = time.Now()
		case ended && isAnswer(err) && time.Since(refusedSince) >= logLimit:
			l.finish(err)
			return true
		}
		if time.Since(began) > logMaxPause {
			pause = logPause
		}
		if ended {
			l.sleep(ctx, endPause)
			endPause = min(2*endPause, logMaxPause)
		} else if !l.hasEnded() {
			l.sleep(ctx, pause)
			pause = min(2*pause, logMaxPause)
		}
	}
	return false
}

// isAnswer reports whether the API server has refused the request. An outage or an overloaded server is not a refusal.
func isAnswer(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err)
}

// podGone reports whether the Pod was not found, rather than its log on the node.
func podGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

func (l *logReader) hasEnded() bool { return isClosed(l.ended) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep waits for the pause, or until the container ends.
func (l *logReader) sleep(ctx context.Context, pause time.Duration) {
	ended := l.ended
	if l.hasEnded() {
		ended = nil
	}
	select {
	case <-ctx.Done():
	case <-ended:
	case <-time.After(pause):
	}
}

// follow reads what the container prints while it runs. If the stream stays open after the container's end, it is closed after logDrain.
func (l *logReader) follow(ctx context.Context, stop func()) error {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-done:
			return
		case <-l.ended:
		}
		select {
		case <-done:
		case <-time.After(logDrain):
			stop()
		}
	})
	defer waiting.Wait()
	defer close(done)
	return l.readOnce(ctx, true)
}

// readOnce reads the log from its start.
func (l *logReader) readOnce(ctx context.Context, follow bool) error {
	stream, err := l.open(ctx, follow)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	l.setProblem("")
	l.position = 0
	l.reader.Restart()
	if _, err = io.CopyBuffer(logWriter{l}, stream, make([]byte, logBuffer)); err == nil && !follow {
		err = l.noteBad(l.reader.Close())
	}
	return err
}

// noteBad remembers that an output cannot be read, and returns the error.
func (l *logReader) noteBad(err error) error {
	if !errors.Is(err, errNoPlace) {
		l.bad = err
	}
	return err
}

// logWriter keeps errors of the text apart from errors of the stream.
type logWriter struct{ log *logReader }

func (w logWriter) Write(p []byte) (int, error) {
	n, err := w.log.reader.Write(p)
	return n, w.log.noteBad(err)
}

// take adds the text that no earlier reading has taken to the tail.
func (l *logReader) take(piece []byte) {
	if l.position == 0 {
		head := piece[:min(len(piece), tail.MaxLineBytes)]
		if n := min(len(head), len(l.head)); !bytes.Equal(head[:n], l.head[:n]) {
			l.taken = 0 // the log was rotated: this is another text
		}
		l.head = bytes.Clone(head)
	}
	start := l.position
	l.position += int64(len(piece))
	if l.position <= l.taken {
		return
	}
	text := string(piece[max(0, l.taken-start):])
	l.taken = l.position
	l.tail = tail.Append(l.tail, text)
}

// setProblem remembers why the log cannot be read at the moment; "" if it can be read.
func (l *logReader) setProblem(problem string) {
	l.mu.Lock()
	changed := (l.problem == "") != (problem == "")
	l.problem = problem
	l.mu.Unlock()
	if changed && l.changed != nil {
		l.changed()
	}
}

// whyUnread returns why the log cannot be read; "" if there is no problem, or no log.
func (l *logReader) whyUnread() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

func (l *logReader) finish(err error) {
	result := &logResult{outputs: l.outputs.Values(), tail: l.tail, bad: l.bad}
	if l.bad == nil {
		result.missing = err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result = result
}

// logOptions of a container.
func logOptions(container string, follow bool) *corev1.PodLogOptions {
	return &corev1.PodLogOptions{Container: container, Follow: follow}
}
