// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase/tail"
)

// logServer serves one reading of a log after the other.
type logServer struct {
	mu       sync.Mutex
	readings []func(ctx context.Context) (io.ReadCloser, error)
	followed []bool
}

func (s *logServer) open(ctx context.Context, follow bool) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = append(s.followed, follow)
	next := s.readings[0]
	if len(s.readings) > 1 { // the last one stays
		s.readings = s.readings[1:]
	}
	return next(ctx)
}

// text is a reading that ends.
func text(parts ...string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(parts, ""))), nil
	}
}

// hanging is a reading that does not end before the context.
func hanging(part string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write([]byte(part))
			<-ctx.Done()
			_ = w.CloseWithError(ctx.Err())
		}()
		return r, nil
	}
}

func refusing(err error) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return nil, err }
}

func output(key, value string) string {
	return fmt.Sprintf("###Phase-output###:{\"key\":%q,\"value\":%q}\n", key, value)
}

// follow follows a log with these readings. done waits until it is read.
func (s *logServer) follow(t *testing.T) (log *logReader, done func() *logResult) {
	return s.followWithin(t, "ops", newLogLimits())
}

// followWithin does what follow does, with limits that are shared with other logs.
func (s *logServer) followWithin(t *testing.T, namespace string, limits logLimits) (log *logReader, done func() *logResult) {
	ctx, cancel := context.WithCancel(context.Background())
	log = newLogReader(ctx, namespace, limits, s.open)
	log.cancel = cancel
	var running sync.WaitGroup
	running.Go(func() {
		log.run(ctx)
		<-ctx.Done()
		log.forget()
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return log, func() *logResult {
		t.Helper()
		for range 600 {
			synctest.Wait()
			if result := log.read(); result != nil {
				return result
			}
			time.Sleep(time.Second)
		}
		t.Fatal("the log is not read after ten minutes")
		return nil
	}
}

func TestLongLines(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		long, value := strings.Repeat("x", 100_000), strings.Repeat("v", 70_000)
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){text(long, "\n", output("a", value))}}
		log, done := s.follow(t)
		log.end()
		result := done()
		podWant(t, "the output", result.outputs, map[string]string{"a": value})
	})
}

func TestLogStreamResumes(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		begin := "one\n" + output("a", "1") + "two\n"
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			text(begin, "thr"), // cut in a line
			text(begin, "three\n###Phase-output###:{\"key\":\"b\","), // cut in an output
			text(begin, "three\n", output("b", "2"), output("a", "3"), "four"),
		}}
		log, done := s.follow(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if log.read() != nil {
			t.Error("the log is reported as complete while the container runs")
		}
		log.end()
		result := done()
		podWant(t, "outputs", result.outputs, map[string]string{"a": "3", "b": "2"})
		podWant(t, "the last lines", strings.Join(result.tail, "|"), "one|two|three|four")
	})
}

func TestLogAfterLostStream(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			text("one\n"), text("one\n", output("a", "late")),
		}}
		log, done := s.follow(t)
		synctest.Wait() // the first stream has ended, well as it seems
		log.end()
		podWant(t, "outputs", done().outputs, map[string]string{"a": "late"})
		podWant(t, "how it was read", s.followed, []bool{true, false})
	})
}

func TestLogRotation(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			text("a long text at first\n", output("a", "1")), text("new\n", output("b", "2")),
		}}
		log, done := s.follow(t)
		synctest.Wait()
		log.end()
		result := done()
		podWant(t, "outputs", result.outputs, map[string]string{"a": "1", "b": "2"})
		podWant(t, "the last lines", strings.Join(result.tail, "|"), "a long text at first|new")
	})
}

func TestInvalidOutputEndsReading(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){hanging("###Phase-output###:nope\n")}}
		_, done := s.follow(t)
		podWant(t, "what is wrong", done().bad.Error(),
			"Failed to unmarshal key-value pair: invalid character 'o' in literal null (expecting 'u')")
	})
	podBubble(t, func(t *testing.T) {
		half := output("a", strings.Repeat("v", 300<<10))
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			text(half), text(output("b", strings.Repeat("v", 300<<10))), // outputs of a rotated log count
		}}
		log, done := s.follow(t)
		synctest.Wait()
		log.end()
		if bad := done().bad; !errors.Is(bad, blueprint.ErrOutputTooLarge) {
			t.Errorf("what is wrong is %v", bad)
		}
	})
}

func TestStreamOutlivesContainer(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){
			hanging("one\n"), text("one\n", output("a", "1")),
		}}
		log, done := s.follow(t)
		synctest.Wait()
		log.end()
		began := time.Now()
		podWant(t, "outputs", done().outputs, map[string]string{"a": "1"})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestUnreadableLogGivenUp(t *testing.T) {
	refused := apierrors.NewInternalError(errors.New("node unreachable"))
	t.Run("an outage", func(t *testing.T) {
		podBubble(t, func(t *testing.T) {
			s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){refusing(errors.New("connection refused"))}}
			log, _ := s.follow(t)
			log.end()
			time.Sleep(time.Hour)
			synctest.Wait()
			if log.read() != nil {
				t.Fatal("an outage makes the outputs lost")
			}
			if n := len(s.followed); n > 150 {
				t.Errorf("it was tried %d times in an hour", n)
			}
			s.mu.Lock()
			s.readings = []func(context.Context) (io.ReadCloser, error){refusing(refused), text(output("a", "1"))}
			s.mu.Unlock()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			podWant(t, "outputs", log.read().outputs, map[string]string{"a": "1"})
		})
	})
	t.Run("the node is gone", func(t *testing.T) {
		podBubble(t, func(t *testing.T) {
			s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){text(output("a", "1")), refusing(refused)}}
			log, done := s.follow(t)
			synctest.Wait()
			log.end()
			time.Sleep(time.Minute)
			synctest.Wait()
			if log.read() != nil {
				t.Error("given up within a minute")
			}
			result := done()
			podWant(t, "why", result.missing.Error(), refused.Error())
		})
	})
	t.Run("no right", func(t *testing.T) {
		podBubble(t, func(t *testing.T) {
			forbidden := apierrors.NewForbidden(corev1.Resource("pods/log"), "x", errors.New("no"))
			s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){refusing(forbidden)}}
			_, done := s.follow(t)
			podWant(t, "why", done().missing.Error(), forbidden.Error())
			podWant(t, "tries", len(s.followed), 1)
		})
	})
}

func TestLogTailLimit(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		var printed strings.Builder
		for i := range 30 {
			fmt.Fprintf(&printed, "line %d\n\n  \n", i)
		}
		s := &logServer{readings: []func(context.Context) (io.ReadCloser, error){text(printed.String(), strings.Repeat("ü", 50_000))}}
		log, done := s.follow(t)
		log.end()
		lines := done().tail
		podWant(t, "lines", len(lines), 10)
		for _, line := range lines {
			if len(line) > tail.MaxLineBytes+3 {
				t.Errorf("a line of %d bytes is kept", len(line))
			}
		}
	})
}

// The streams of a real connection: bytes that were sent are read before the stream ends.
func TestFollowLogOverHTTP(t *testing.T) {
	end := make(chan struct{})
	requests := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path + "?" + r.URL.RawQuery
		_, _ = io.WriteString(w, "one\n")
		if r.URL.Query().Get("follow") == "true" {
			w.(http.Flusher).Flush()
			<-end
		}
		_, _ = io.WriteString(w, output("a", "1"))
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: server.URL}, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	runs := &Runs{client: client}
	log := newLogReader(t.Context(), "ops", newLogLimits(), runs.opener("apps", "pod", MainContainer))
	ran := make(chan bool)
	go func() { ran <- log.run(t.Context()) }()
	podWant(t, "the first request", <-requests, "/api/v1/namespaces/apps/pods/pod/log?container=container&follow=true")
	close(end)
	log.end()
	podWant(t, "read to its end", <-ran, true)
	podWant(t, "the second request", <-requests, "/api/v1/namespaces/apps/pods/pod/log?container=container")
	podWant(t, "outputs", log.read().outputs, map[string]string{"a": "1"})
}
